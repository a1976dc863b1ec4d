package stock

import (
	"path/filepath"
	"testing"
)

// NewScheduler starts a kube-scheduler with the kubeconfig at a path. It runs until the test ends.
func NewScheduler(t testing.TB, bin, kubeconfig string) {
	t.Helper()
	dir := t.TempDir()
	launch(t, dir, filepath.Join(bin, "kube-scheduler"), "--kubeconfig", kubeconfig, "--secure-port", "0", "--leader-elect=false",
		"--kube-api-qps", "1000", "--kube-api-burst", "2000")
}
