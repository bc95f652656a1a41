package shardlake.shop;

import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;

/** The trust store of this JVM, which the SDK reads. */
final class Trust {
    private Trust() {}

    /** Trusts the authority whose certificate {@code SHARDLAKE_CA_FILE} names, and no other. */
    static void authority() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (var certificate = Files.newInputStream(Path.of(System.getenv("SHARDLAKE_CA_FILE")))) {
            store.setCertificateEntry("shardlake", CertificateFactory.getInstance("X.509").generateCertificate(certificate));
        }
        Path file = Files.createTempFile("shardlake-trust", ".p12");
        file.toFile().deleteOnExit();
        try (OutputStream out = Files.newOutputStream(file)) {
            store.store(out, "changeit".toCharArray());
        }
        System.setProperty("javax.net.ssl.trustStore", file.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", "changeit");
    }
}
