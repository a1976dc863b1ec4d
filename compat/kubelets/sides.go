package kubelets

import (
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/compat/convergence"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/plane/stack"
)

// nodeName is the name of the node on every side.
const nodeName = stock.Node

// nodeAddress is the address of our kubelet, and of both where streams are compared. It is of a range
// for documentation (RFC 5737).
const nodeAddress = "192.0.2.1"

// Side is an API server with a scheduler and a kubelet.
type Side struct {
	// Server starts the control plane and returns the kubeconfigs of its administrator and of the
	// node. It runs until the test ends.
	Server func(t *testing.T, bin string) (admin, node string)
	// Kubelet starts the kubelet with a kubeconfig. It runs until the test ends.
	Kubelet func(t *testing.T, bin, kubeconfig string, h *host)
}

// StockServer starts kube-apiserver, kube-scheduler, and of kube-controller-manager what the
// scenarios need.
func StockServer(t *testing.T, bin string) (admin, node string) {
	s := stock.NewServer(t, bin, "--authorization-mode", "Node", "--enable-admission-plugins", "NodeRestriction")
	stock.NewScheduler(t, bin, s.Kubeconfig)
	stock.NewManager(t, bin, stock.ManagerConfig{
		Kubeconfig: s.Kubeconfig, Controllers: []string{"node-lifecycle-controller", "serviceaccount-controller"}, CA: convergence.Authority,
	})
	return s.Kubeconfig, s.NodeKubeconfig()
}

// OurServer starts our control plane.
func OurServer(t *testing.T, _ string) (admin, node string) {
	t.Helper()
	// The events about fields without effect would be the only difference.
	p := planetest.Start(t, planetest.With(func(c *plane.Config) { c.Admission.Unsupported = []unsupported.Row{} }))
	pair, err := p.Credentials.Authority.Client("node", user.NodePrefix+nodeName, user.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	node = filepath.Join(t.TempDir(), "node")
	if err := p.Credentials.KubeconfigOf(p.URL(), pair).Write(node); err != nil {
		t.Fatal(err)
	}
	return p.KubeconfigFile(), node
}

// StockKubelet starts the stock kubelet.
func StockKubelet(t *testing.T, bin, kubeconfig string, h *host) {
	stock.NewKubelet(t, bin, stock.KubeletConfig{
		Kubeconfig: kubeconfig, Node: nodeName, Socket: h.socket, Dir: h.dir, CgroupRoot: h.cgroup,
	})
}

// OurKubelet starts our kubelet, without its server.
func OurKubelet(t *testing.T, _, path string, h *host) { ourKubelet(t, path, h, nil) }

// ourKubelet starts our kubelet. If serve is not nil, it returns a server of the kubelet, which runs
// until the test ends, and its port.
func ourKubelet(t *testing.T, path string, h *host, serve func(kubelet.Config, localcache.Reader[*corev1.Pod], *cri.Client) (*server.Server, int32)) {
	t.Helper()
	api, err := kubeconfig.Connect(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	containers, err := cri.Dial(t.Context(), h.socket, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = containers.Close() })
	log := logTo(t, "kubelet")
	pods, err := nodes.PodsOf(nodeName, api, log)
	if err != nil {
		t.Fatal(err)
	}
	config := kubelet.Config{
		NodeName: nodeName, Root: filepath.Join(h.dir, "kubelet"), LogRoot: filepath.Join(h.dir, "logs"),
		CgroupRoot: filepath.Join(h.cgroup, "kubepods"),
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}},
		Runtime:    containers, Images: containers, Pods: pods,
		// The machine is not the kubelet's own.
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}}, ImageGC: kubelet.ImageGC{High: 100},
		PodCIDR: "10.9.0.0/24",
		Log:     log,
	}
	nodes.Connect(&config, api)
	var served *server.Server
	if serve != nil {
		served, config.Port = serve(config, pods, containers)
	}
	k, err := kubelet.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New()
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.Start("pods", pods.Run)
	if served != nil {
		s.Start("server", served.Run)
	}
	s.Start("kubelet", k.Run)
	if err := s.Await(t.Context(), k.Ready()); err != nil {
		t.Fatal(err)
	}
}

// logTo returns a logger whose lines are shown if the test fails.
func logTo(t *testing.T, name string) logr.Logger {
	return funcr.New(func(prefix, args string) { t.Log(prefix, args) }, funcr.Options{}).WithName(name)
}
