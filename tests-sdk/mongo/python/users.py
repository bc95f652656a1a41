"""Users that `createUser` makes, as applications meet them: both mechanisms, over plain connections and TLS."""

import unittest

from pymongo import InsertOne, MongoClient
from pymongo.errors import ClientBulkWriteException, OperationFailure
from support import SELECTION, OwnServer, database_name

TRANSPORTS = ["plain", "tls"]
MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-1"]
# SASLprep makes two letters of the last character; a URI has to encode most of the others.
PASSWORD = "p/ss: wörd%@Ⅸ"
UNAUTHORIZED, AUTHENTICATION_FAILED = 13, 18


def setUpModule():
    global server
    server = OwnServer()


def tearDownModule():
    server.stop()


class WithUsers(unittest.TestCase):
    def setUp(self):
        self.owner = server.owner()
        self.db = self.owner[database_name()]
        self.other = self.owner[database_name()]
        for db in (self.db, self.other):
            db.c.insert_many({"_id": n} for n in range(20))

    def tearDown(self):
        for db in (self.db, self.other):
            db.command("dropAllUsersFromDatabase")
            self.owner.drop_database(db.name)
        self.owner.close()

    def make(self, name, *roles, **fields):
        self.db.command("createUser", name, pwd=PASSWORD, roles=list(roles), **fields)

    def signed_in(self, name, password=PASSWORD, transport="plain", source=None, mechanism=None, **options):
        fields = {"authMechanism": mechanism} if mechanism else {}
        uri = server.uri(name, password, transport, authSource=source or self.db.name, **fields)
        connected = MongoClient(uri, **SELECTION, **options)
        self.addCleanup(connected.close)
        return connected

    def assert_fails(self, code, work):
        with self.assertRaises(OperationFailure) as raised:
            work()
        self.assertEqual(raised.exception.code, code, raised.exception)
        return raised.exception


class SigningIn(WithUsers):
    def test_users_sign_in_by_both_mechanisms_plain_and_over_tls(self):
        self.make("ada", "readWrite")
        for transport in TRANSPORTS:
            for mechanism in [*MECHANISMS, None]:
                with self.subTest(transport=transport, mechanism=mechanism):
                    ada = self.signed_in("ada", transport=transport, mechanism=mechanism)
                    status = ada.admin.command("connectionStatus")["authInfo"]
                    self.assertEqual(status["authenticatedUsers"], [{"user": "ada", "db": self.db.name}])
                    self.assertEqual(status["authenticatedUserRoles"], [{"role": "readWrite", "db": self.db.name}])
                    written = ada[self.db.name].signed.insert_one({"by": [transport, mechanism]})
                    self.assertEqual(self.db.signed.find_one(written.inserted_id)["by"], [transport, mechanism])

    def test_the_database_of_an_address_is_where_its_user_is_looked_for(self):
        self.make("ada", "read")
        uri = server.uri("ada", PASSWORD).replace("/?", f"/{self.db.name}?")
        with MongoClient(uri, **SELECTION) as ada:
            self.assertEqual(ada.get_default_database().c.count_documents({}), 20)

    def test_nobody_signs_in_with_what_is_another_users(self):
        self.make("ada", "read")
        self.other.command("createUser", "ada", pwd="another", roles=["read"])
        messages = set()
        for transport in TRANSPORTS:
            for mechanism in MECHANISMS:
                how = {"transport": transport, "mechanism": mechanism}
                for wrong in [
                    {"password": "another"},
                    {"source": self.other.name},
                    {"source": "admin"},
                    {"name": "bob"},
                    {"password": server.KEY},
                ]:
                    with self.subTest(**how, **wrong):
                        intruder = self.signed_in(**{"name": "ada", **how, **wrong})
                        error = self.assert_fails(AUTHENTICATION_FAILED, lambda: intruder[self.db.name].c.find_one())
                        messages.add(error.details["errmsg"])
        self.assertEqual(messages, {"Authentication failed."})

    def test_a_client_that_does_not_say_who_it_is_may_greet_and_no_more(self):
        with MongoClient(f"mongodb://{server.address}/", **SELECTION) as nobody:
            self.assertEqual(nobody.admin.command("hello")["msg"], "isdbgrid")
            self.assert_fails(UNAUTHORIZED, lambda: nobody[self.db.name].c.find_one())
            self.assert_fails(UNAUTHORIZED, lambda: nobody[self.db.name].command("createUser", "eve", pwd="x", roles=["read"]))

    def test_a_user_of_one_mechanism_signs_in_by_that_alone(self):
        for only, other in [MECHANISMS, MECHANISMS[::-1]]:
            name = "only " + only
            self.make(name, "read", mechanisms=[only])
            # A driver that is told no mechanism asks which there are.
            self.assertIsNotNone(self.signed_in(name)[self.db.name].c.find_one())
            self.assertIsNotNone(self.signed_in(name, mechanism=only)[self.db.name].c.find_one())
            refused = self.signed_in(name, mechanism=other)
            self.assert_fails(AUTHENTICATION_FAILED, lambda: refused[self.db.name].c.find_one())


class Rights(WithUsers):
    def test_read_write_holds_on_its_database_alone(self):
        self.make("ada", "readWrite")
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                ada = self.signed_in("ada", transport=transport)
                here, there = ada[self.db.name], ada[self.other.name]
                here.c.insert_one({"_id": transport, "n": 1})
                self.assertEqual(here.c.update_one({"_id": transport}, {"$inc": {"n": 1}}).modified_count, 1)
                self.assertEqual(here.c.find_one_and_delete({"_id": transport})["n"], 2)
                self.assertEqual(here.c.create_index("n"), "n_1")
                here.c.aggregate([{"$match": {"_id": 1}}, {"$out": "copy"}])
                for refused in [
                    lambda: there.c.insert_one({"_id": transport}),
                    lambda: there.c.update_one({"_id": 1}, {"$set": {"n": 1}}),
                    lambda: there.c.delete_many({}),
                    lambda: there.c.bulk_write([InsertOne({"_id": transport})]),
                    lambda: there.c.find_one(),
                    lambda: there.c.create_index("n"),
                    lambda: there.create_collection("made"),
                    lambda: here.c.aggregate([{"$out": {"db": there.name, "coll": "copy"}}]),
                    lambda: here.c.aggregate([{"$lookup": {"from": {"db": there.name, "coll": "c"}, "pipeline": [], "as": "x"}}]),
                    lambda: ada.drop_database(there.name),
                    lambda: here.command("createUser", "eve", pwd="x", roles=["readWrite"]),
                ]:
                    self.assert_fails(UNAUTHORIZED, refused)
                with self.assertRaises(ClientBulkWriteException) as raised:
                    ada.bulk_write([InsertOne({"_id": transport}, namespace=there.name + ".c")])
                self.assertEqual(raised.exception.error.code, UNAUTHORIZED)
                self.assertEqual(ada.list_database_names(), [self.db.name])
        self.assertEqual(self.other.list_collection_names(), ["c"])
        self.assertEqual([found for found in self.other.c.find(sort=[("_id", 1)])], [{"_id": n} for n in range(20)])

    def test_read_does_not_write(self):
        self.make("reader", "read")
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                here = self.signed_in("reader", transport=transport)[self.db.name]
                self.assertEqual(here.c.count_documents({}), 20)
                self.assertEqual(len(list(here.c.find(batch_size=3))), 20)
                self.assertEqual(here.list_collection_names(), ["c"])
                with here.c.watch(max_await_time_ms=1) as stream:
                    self.assertIsNone(stream.try_next())
                for refused in [
                    lambda: here.c.insert_one({}),
                    lambda: here.c.insert_many([{}, {}], ordered=False),
                    lambda: here.c.replace_one({"_id": 1}, {"n": 1}),
                    lambda: here.c.update_many({}, {"$set": {"n": 1}}),
                    lambda: here.c.find_one_and_update({"_id": 1}, {"$set": {"n": 1}}),
                    lambda: here.c.delete_one({"_id": 1}),
                    lambda: here.c.bulk_write([InsertOne({})]),
                    lambda: here.c.aggregate([{"$merge": "c"}]),
                    lambda: here.create_collection("made"),
                    lambda: here.c.create_index("n"),
                    lambda: here.c.rename("d"),
                    lambda: here.c.drop(),
                    lambda: here.client.drop_database(here.name),
                ]:
                    self.assert_fails(UNAUTHORIZED, refused)
        self.assertEqual([found for found in self.db.c.find(sort=[("_id", 1)])], [{"_id": n} for n in range(20)])

    def test_roles_that_are_given_and_taken_hold_at_once_for_open_connections(self):
        self.make("ada", "read")
        ada = self.signed_in("ada")[self.db.name]
        self.assert_fails(UNAUTHORIZED, lambda: ada.c.insert_one({"_id": "early"}))
        self.db.command("grantRolesToUser", "ada", roles=["readWrite"])
        ada.c.insert_one({"_id": "between"})
        self.db.command("revokeRolesFromUser", "ada", roles=["readWrite"])
        self.assert_fails(UNAUTHORIZED, lambda: ada.c.insert_one({"_id": "late"}))
        self.assertEqual(ada.c.count_documents({"_id": {"$type": "string"}}), 1)

    def test_users_are_told_without_what_proves_them(self):
        self.make("ada", "read", {"role": "readWrite", "db": self.other.name}, customData={"team": 7})
        self.make("bob", "read")
        told = self.db.command("usersInfo", 1)["users"]
        self.assertEqual([user["user"] for user in told], ["ada", "bob"])
        ada = told[0]
        self.assertEqual((ada["_id"], ada["db"]), (self.db.name + ".ada", self.db.name))
        roles = sorted((role["db"] == self.other.name, role["role"]) for role in ada["roles"])
        self.assertEqual(roles, [(False, "read"), (True, "readWrite")])
        self.assertEqual((ada["customData"], sorted(ada["mechanisms"])), ({"team": 7}, sorted(MECHANISMS)))
        self.assertNotIn("credentials", ada)
        own = self.signed_in("bob")[self.db.name]
        self.assertEqual([user["user"] for user in own.command("usersInfo", "bob")["users"]], ["bob"])
        self.assert_fails(UNAUTHORIZED, lambda: own.command("usersInfo", "ada"))
        self.assert_fails(UNAUTHORIZED, lambda: own.command("usersInfo", 1))
        self.assertEqual(self.db.command("usersInfo", "nobody")["users"], [])


class Changes(WithUsers):
    def lose_connection(self, application):
        data = {"failCommands": ["find"], "closeConnection": True, "appName": application}
        self.owner.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)

    def test_a_changed_password_ends_nothing_and_holds_for_the_next_connection(self):
        self.make("ada", "readWrite")
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                application = f"{self.db.name} {transport}"
                before = self.signed_in("ada", transport=transport, appname=application)
                cursor = before[self.db.name].c.find(batch_size=2, sort=[("_id", 1)])
                found = [next(cursor)]
                self.db.command("updateUser", "ada", pwd="another")
                # What was open goes on: the cursor and the connection.
                found += list(cursor)
                self.assertEqual([one["_id"] for one in found], list(range(20)))
                before[self.db.name].d.insert_one({"by": transport})
                for mechanism in MECHANISMS:
                    old = self.signed_in("ada", transport=transport, mechanism=mechanism)
                    self.assert_fails(AUTHENTICATION_FAILED, lambda: old[self.db.name].c.find_one())
                    new = self.signed_in("ada", "another", transport=transport, mechanism=mechanism)
                    self.assertEqual(new[self.db.name].c.find_one({"_id": 1}), {"_id": 1})
                # A client that has to connect again is told, and not left waiting.
                self.lose_connection(application)
                self.assert_fails(AUTHENTICATION_FAILED, lambda: before[self.db.name].c.find_one())
                self.db.command("updateUser", "ada", pwd=PASSWORD)
                self.assertEqual(before[self.db.name].c.find_one({"_id": 1}), {"_id": 1}, "with what it has, again")

    def test_a_dropped_user_is_refused_on_open_connections(self):
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                self.make("ada", "readWrite")
                open_here = self.signed_in("ada", transport=transport)
                here = open_here[self.db.name]
                cursor = here.c.find(batch_size=2)
                next(cursor)
                stream = here.c.watch(max_await_time_ms=1)
                self.assertIsNone(stream.try_next())
                self.db.command("dropUser", "ada")
                for refused in [
                    lambda: here.c.find_one(),
                    lambda: list(cursor),
                    lambda: stream.try_next(),
                    lambda: here.c.insert_one({"_id": "ghost"}),
                    lambda: here.list_collection_names(),
                ]:
                    self.assert_fails(UNAUTHORIZED, refused)
                again = self.signed_in("ada", transport=transport)
                self.assert_fails(AUTHENTICATION_FAILED, lambda: again[self.db.name].c.find_one())
                # Another user of that name is another user.
                self.make("ada", "readWrite")
                self.assert_fails(UNAUTHORIZED, lambda: here.c.find_one())
                self.assertIsNotNone(self.signed_in("ada", transport=transport)[self.db.name].c.find_one())
                self.db.command("dropUser", "ada")
        self.assertEqual(self.db.c.count_documents({"_id": "ghost"}), 0)
