package stock

import (
	"path/filepath"
	"strings"
	"testing"
)

// ManagerConfig configures a kube-controller-manager.
type ManagerConfig struct {
	// Kubeconfig is the path of its kubeconfig.
	Kubeconfig string
	// Controllers are the names of its controllers.
	Controllers []string
	// CA is the PEM of the authority that it publishes to pods.
	CA string
}

// NewManager starts a kube-controller-manager that runs until the test ends. Its request rate is
// practically unlimited.
func NewManager(t testing.TB, bin string, c ManagerConfig, more ...string) {
	t.Helper()
	dir := t.TempDir()
	key, ca := filepath.Join(dir, "sa.key"), filepath.Join(dir, "ca.crt")
	writeKey(t, key)
	write(t, ca, c.CA)
	launch(t, dir, filepath.Join(bin, "kube-controller-manager"), append([]string{
		"--kubeconfig", c.Kubeconfig, "--service-account-private-key-file", key, "--root-ca-file", ca,
		"--secure-port", "0", "--leader-elect=false", "--use-service-account-credentials=false",
		"--kube-api-qps", "1000", "--kube-api-burst", "2000",
		"--controllers", strings.Join(c.Controllers, ","),
	}, more...)...)
}
