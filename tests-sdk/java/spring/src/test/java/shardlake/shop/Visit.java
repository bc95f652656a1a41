package shardlake.shop;

import com.azure.spring.data.cosmos.core.mapping.Container;
import org.springframework.data.annotation.Id;

/** A visit, whose hierarchical key is tenant and user. */
@Container(containerName = "visits", ru = "400", hierarchicalPartitionKeyPaths = {"/tenant", "/user"})
public class Visit {
    @Id
    private String id;

    private String tenant;
    private String user;

    public Visit() {}

    Visit(String id, String tenant, String user) {
        this.id = id;
        this.tenant = tenant;
        this.user = user;
    }

    public String getId() {
        return id;
    }

    public void setId(String id) {
        this.id = id;
    }

    public String getTenant() {
        return tenant;
    }

    public void setTenant(String tenant) {
        this.tenant = tenant;
    }

    public String getUser() {
        return user;
    }

    public void setUser(String user) {
        this.user = user;
    }
}
