/**
 * Places an order: creates it and counts it in its customer's salesOrderCount, both or neither.
 *
 * Runs in the logical partition of the customer, where the customer lies too. An order that is there already is not counted
 * again, so that whoever does not know whether a call arrived can repeat it.
 */
function placeOrder(order) {
  const collection = getContext().getCollection();
  const response = getContext().getResponse();
  if (!order || order.type !== 'salesOrder' || !order.id || !order.customerId) {
    throw new Error('an order has a type, an id and a customerId');
  }

  const create = collection.createDocument(collection.getSelfLink(), order, (error) => {
    if (error && error.number === 409) {
      response.setBody({ id: order.id, placed: false });
      return;
    }
    if (error) throw error;
    count();
  });
  if (!create) throw new Error('there was no time left to place the order: try again');

  function count() {
    const link = collection.getAltLink() + '/docs/' + order.customerId;
    const read = collection.readDocument(link, (error, customer) => {
      if (error) throw error;
      customer.salesOrderCount += 1;
      const replace = collection.replaceDocument(customer._self, customer, (error, replaced) => {
        if (error) throw error;
        // What an order must be is checked at its end here to show that what was written until then is undone.
        if (!order.details || order.details.some((detail) => !(detail.quantity > 0))) {
          throw new Error('every detail of an order needs a quantity');
        }
        response.setBody({ id: order.id, placed: true, salesOrderCount: replaced.salesOrderCount });
      });
      if (!replace) throw new Error('there was no time left to place the order: try again');
    });
    if (!read) throw new Error('there was no time left to place the order: try again');
  }
}
