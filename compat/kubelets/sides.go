package kubelets

import (
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/compat/convergence"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/pluginset"
	"github.com/planekit/planekit/plane/stack"
)

// nodeName is the name of the node on every side.
const nodeName = stock.Node

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
	p, err := plane.New(plane.Config{
		// The events about fields without effect would be the only difference.
		Admission: pluginset.Options{Unsupported: []unsupported.Row{}},
		Log:       logTo(t, "control plane"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New()
	s.Start("control plane", p.Run)
	stopWith(t, s)
	if err := s.Await(t.Context(), p.Ready()); err != nil {
		t.Fatal(err)
	}
	pair, err := p.Credentials.Authority.Client("node", user.NodePrefix+nodeName, user.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	admin, node = filepath.Join(dir, "admin"), filepath.Join(dir, "node")
	if err := p.Kubeconfig().Write(admin); err != nil {
		t.Fatal(err)
	}
	if err := p.Credentials.KubeconfigOf(p.URL(), pair).Write(node); err != nil {
		t.Fatal(err)
	}
	return admin, node
}

// StockKubelet starts the stock kubelet.
func StockKubelet(t *testing.T, bin, kubeconfig string, h *host) {
	stock.NewKubelet(t, bin, stock.KubeletConfig{
		Kubeconfig: kubeconfig, Node: nodeName, Socket: h.socket, Dir: h.dir, CgroupRoot: h.cgroup,
	})
}

// OurKubelet starts our kubelet.
func OurKubelet(t *testing.T, _, path string, h *host) {
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
	pods, err := caches.Of(typed.Pods(api).Where("", "", fields.OneTermEqualSelector("spec.nodeName", nodeName).String()), log)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubelet.New(kubelet.Config{
		NodeName: nodeName, Root: filepath.Join(h.dir, "kubelet"), LogRoot: filepath.Join(h.dir, "logs"),
		CgroupRoot: filepath.Join(h.cgroup, "kubepods"),
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		Runtime:    containers, Images: containers,
		Pods: pods, PodStatus: typed.Pods(api), Nodes: typed.Nodes(api), Leases: typed.Leases(api), Events: typed.Events(api),
		Secrets: typed.Secrets(api).Get, ConfigMaps: typed.ConfigMaps(api).Get, Tokens: nodes.RequestTokens(api),
		// The machine is not the kubelet's own.
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}}, ImageGC: kubelet.ImageGC{High: 100},
		PodCIDR: "10.9.0.0/24",
		Log:     log,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New()
	stopWith(t, s)
	s.Start("pods", pods.Run)
	s.Start("kubelet", k.Run)
	if err := s.Await(t.Context(), k.Ready()); err != nil {
		t.Fatal(err)
	}
}

func stopWith(t *testing.T, s *stack.Stack) {
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// logTo returns a logger whose lines are shown if the test fails.
func logTo(t *testing.T, name string) logr.Logger {
	return funcr.New(func(prefix, args string) { t.Log(prefix, args) }, funcr.Options{}).WithName(name)
}
