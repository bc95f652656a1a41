package shardlake.shop;

import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.mapping.PartitionKey;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;

/** An order of a customer. */
@Container(containerName = "orders", ru = "400")
public class Order {
    @Id
    private String id;

    @PartitionKey
    private String customer;

    private String state;
    private int total;

    @Version
    private String etag;

    public Order() {}

    Order(String id, String customer, String state, int total) {
        this.id = id;
        this.customer = customer;
        this.state = state;
        this.total = total;
    }

    public String getId() {
        return id;
    }

    public void setId(String id) {
        this.id = id;
    }

    public String getCustomer() {
        return customer;
    }

    public void setCustomer(String customer) {
        this.customer = customer;
    }

    public String getState() {
        return state;
    }

    public void setState(String state) {
        this.state = state;
    }

    public int getTotal() {
        return total;
    }

    public void setTotal(int total) {
        this.total = total;
    }

    public String getEtag() {
        return etag;
    }

    public void setEtag(String etag) {
        this.etag = etag;
    }
}
