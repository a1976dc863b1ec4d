package stock

import (
	"cmp"
	"fmt"
	"path/filepath"
	"testing"
)

// KubeletConfig configures a kubelet. All fields but Address must be set.
type KubeletConfig struct {
	// Kubeconfig is the path of its kubeconfig.
	Kubeconfig string
	// Node is the name of its Node object.
	Node string
	// Socket is the path of the runtime's CRI socket.
	Socket string
	// Dir is the directory for its state and the logs of containers. It is a short path, because
	// the kubelet makes sockets there.
	Dir string
	// CgroupRoot is a cgroup that exists in every hierarchy, below which it makes those of pods.
	CgroupRoot string
	// Address is an address of this machine at which API servers reach the kubelet. If it is empty,
	// none does.
	Address string
}

const kubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%s
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: %s
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
address: %s
port: %s
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
# Pulls of many pods at once are not refused.
registryPullQPS: 0
# The machine is not the kubelet's own.
evictionHard: {}
imageGCHighThresholdPercent: 100
podLogsDir: %s
`

// NewKubelet starts a kubelet that runs until the test ends. Its pods run on.
func NewKubelet(t testing.TB, bin string, c KubeletConfig) {
	t.Helper()
	config := filepath.Join(c.Dir, "kubelet.yaml")
	address := cmp.Or(c.Address, "127.0.0.1")
	write(t, config, fmt.Sprintf(kubeletConfiguration, c.Socket, c.CgroupRoot, address, FreePort(t), filepath.Join(c.Dir, "logs")))
	arguments := []string{
		"--config", config, "--kubeconfig", c.Kubeconfig,
		"--hostname-override", c.Node, "--root-dir", filepath.Join(c.Dir, "kubelet"), "--cert-dir", filepath.Join(c.Dir, "certs"),
	}
	if c.Address != "" {
		arguments = append(arguments, "--node-ip", c.Address)
	}
	launch(t, c.Dir, filepath.Join(bin, "kubelet"), arguments...)
}
