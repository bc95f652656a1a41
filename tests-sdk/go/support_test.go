// Package suite holds the checks of the Go SDK against a running server.
//
// SHARDLAKE_HTTP, SHARDLAKE_HTTPS and SHARDLAKE_KEY name the server, SHARDLAKE_CA_FILE is the certificate of its authority.
// All clients use TLS and trust that authority alone. With the build tag "beta" and beta.mod the suite uses the preview of the
// SDK, which also reads change feeds and many items at once.
package suite

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// fivePartitions is the throughput that gives a new container five physical partitions.
const fivePartitions = 30_000

var ctx = context.Background()

type item map[string]any

func required(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set", name)
	}
	return value
}

// transport trusts the server's authority and no other.
func transport(t testing.TB) *http.Client {
	t.Helper()
	certificate, err := os.ReadFile(required(t, "SHARDLAKE_CA_FILE"))
	must(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		t.Fatal("the file holds no certificate")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
}

func newClient(t testing.TB, endpoint, key string, retry policy.RetryOptions) *azcosmos.Client {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(key)
	must(t, err)
	options := azcosmos.ClientOptions{
		ClientOptions:                azcore.ClientOptions{Transport: transport(t), Retry: retry},
		EnableContentResponseOnWrite: true,
	}
	client, err := azcosmos.NewClientWithKey(endpoint, credential, &options)
	must(t, err)
	return client
}

func ownClient(t testing.TB) *azcosmos.Client {
	t.Helper()
	return newClient(t, required(t, "SHARDLAKE_HTTPS"), required(t, "SHARDLAKE_KEY"), policy.RetryOptions{})
}

func unique(name string) string {
	letters := make([]byte, 4)
	if _, err := rand.Read(letters); err != nil {
		panic(err)
	}
	return name + "-" + hex.EncodeToString(letters)
}

// newDatabase is deleted at the end of the test.
func newDatabase(t testing.TB, client *azcosmos.Client) *azcosmos.DatabaseClient {
	t.Helper()
	id := unique("go")
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: id}, nil)
	must(t, err)
	database, err := client.NewDatabase(id)
	must(t, err)
	t.Cleanup(func() {
		_, err := database.Delete(ctx, nil)
		must(t, err)
	})
	return database
}

// newContainer has the key /pk unless paths are given.
func newContainer(t testing.TB, database *azcosmos.DatabaseClient, throughput int32, paths ...string) *azcosmos.ContainerClient {
	t.Helper()
	key := azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}
	if len(paths) > 0 {
		key = azcosmos.PartitionKeyDefinition{Paths: paths, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2}
	}
	return containerOf(t, database, azcosmos.ContainerProperties{ID: unique("container"), PartitionKeyDefinition: key}, throughput)
}

func containerOf(t testing.TB, database *azcosmos.DatabaseClient, properties azcosmos.ContainerProperties, throughput int32) *azcosmos.ContainerClient {
	t.Helper()
	manual := azcosmos.NewManualThroughputProperties(throughput)
	_, err := database.CreateContainer(ctx, properties, &azcosmos.CreateContainerOptions{ThroughputProperties: &manual})
	must(t, err)
	container, err := database.NewContainer(properties.ID)
	must(t, err)
	return container
}

func key(value string) azcosmos.PartitionKey {
	return azcosmos.NewPartitionKeyString(value)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, found, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(found, wanted) {
		t.Fatalf("found %v, wanted %v", found, wanted)
	}
}

// refused expects an error with this status, checks the parts that every error has, and returns it.
func refused(t testing.TB, status int, err error) *azcore.ResponseError {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		t.Fatalf("expected %d, found %v", status, err)
	}
	if response.StatusCode != status {
		t.Fatalf("expected %d: %v", status, err)
	}
	if response.ErrorCode == "" || response.RawResponse.Header.Get("x-ms-activity-id") == "" {
		t.Fatalf("an error has a code and an activity: %v", err)
	}
	return response
}

func encoded(t testing.TB, value item) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return text
}

// own is an item as its writer sent it.
func own(t testing.TB, text []byte) item {
	t.Helper()
	var found item
	must(t, json.Unmarshal(text, &found))
	for _, name := range []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"} {
		delete(found, name)
	}
	return found
}

func create(t testing.TB, container *azcosmos.ContainerClient, value item) azcosmos.ItemResponse {
	t.Helper()
	created, err := container.CreateItem(ctx, key(value["pk"].(string)), encoded(t, value), nil)
	must(t, err)
	return created
}

func read(t testing.TB, container *azcosmos.ContainerClient, id, pk string) item {
	t.Helper()
	found, err := container.ReadItem(ctx, key(pk), id, nil)
	must(t, err)
	return own(t, found.Value)
}

// operate returns the answer of the operator interface. Its requests are signed as all others are; the link is the path.
func operate(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	date := strings.Replace(time.Now().UTC().Format(time.RFC1123), "UTC", "GMT", 1)
	payload := strings.ToLower(method) + "\nshardlake\n" + path + "\n" + strings.ToLower(date) + "\n\n"
	secret, err := base64.StdEncoding.DecodeString(required(t, "SHARDLAKE_KEY"))
	must(t, err)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(payload))
	signature := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	text, err := json.Marshal(body)
	must(t, err)
	request, err := http.NewRequest(method, required(t, "SHARDLAKE_HTTP")+path, strings.NewReader(string(text)))
	must(t, err)
	request.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+signature))
	request.Header.Set("x-ms-date", date)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, answer)
	}
	var found map[string]any
	must(t, json.Unmarshal(answer, &found))
	return found
}

// until asks until the answer is true. The end turns a hang into a failure; it is no verdict on speed.
func until(t testing.TB, event string, ask func() bool) {
	t.Helper()
	for end := time.Now().Add(8 * time.Minute); time.Now().Before(end); {
		if ask() {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("not reached: %s", event)
}

func number(n int) string {
	return fmt.Sprint(n)
}
