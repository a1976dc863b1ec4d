package stock

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
)

const corefile = `.:%s {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods insecure
    }
}
`

// NewCoreDNS starts CoreDNS with the kubernetes plugin, which runs until the test ends, and returns its
// address.
func NewCoreDNS(t testing.TB, program, kubeconfig string) string {
	t.Helper()
	dir, port := t.TempDir(), FreePort(t)
	config := filepath.Join(dir, "Corefile")
	write(t, config, fmt.Sprintf(corefile, port, kubeconfig))
	launch(t, dir, program, "-conf", config)
	return net.JoinHostPort("127.0.0.1", port)
}
