package kubelets

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/planekit/planekit/compat/convergence"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/localcache"
)

// StreamSide starts an API server with a node that it reaches, and returns the configuration of its
// administrator's clients. They run until the test ends.
type StreamSide func(t *testing.T, bin string) *rest.Config

// StreamReference is the stock kubelet under a stock control plane.
func StreamReference(t *testing.T, bin string) *rest.Config {
	t.Helper()
	addAddress(t)
	s := streamServer(t, bin)
	h := newHost(t)
	stock.NewKubelet(t, bin, stock.KubeletConfig{
		Kubeconfig: s.NodeKubeconfig(), Node: nodeName, Socket: h.socket, Dir: h.dir, CgroupRoot: h.cgroup, Address: nodeAddress,
	})
	return clientsOf(t, s.Kubeconfig)
}

// StreamKubelet is our kubelet under a stock control plane.
func StreamKubelet(t *testing.T, bin string) *rest.Config {
	t.Helper()
	addAddress(t)
	s := streamServer(t, bin)
	ourKubelet(t, s.NodeKubeconfig(), newHost(t), func(k kubelet.Config, pods localcache.Reader[*corev1.Pod], containers *cri.Client) (*server.Server, int32) {
		certificate := httptest.NewUnstartedServer(nil)
		certificate.StartTLS()
		defer certificate.Close()
		listener, err := net.Listen("tcp", net.JoinHostPort(nodeAddress, "0"))
		if err != nil {
			t.Fatal(err)
		}
		served, err := server.New(server.Config{
			Listener: listener, TLS: &tls.Config{Certificates: certificate.TLS.Certificates}, NodeName: nodeName,
			// The stock kubelet of the reference lets all clients in, too.
			Authenticate: func(*http.Request) (string, []string, error) { return "anyone", nil, nil },
			Authorize:    func(context.Context, string, []string, string, string) (bool, error) { return true, nil },
			Pods:         pods, Runtime: containers, LogRoot: k.LogRoot, Log: logTo(t, "kubelet-server"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return served, int32(listener.Addr().(*net.TCPAddr).Port)
	})
	return clientsOf(t, s.Kubeconfig)
}

func clientsOf(t *testing.T, path string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// streamServer starts a stock control plane that reaches nodeAddress.
func streamServer(t *testing.T, bin string) *stock.Server {
	t.Helper()
	s := stock.NewServer(t, bin, "--authorization-mode", "Node", "--enable-admission-plugins", "NodeRestriction",
		"--kubelet-preferred-address-types", "InternalIP")
	stock.NewScheduler(t, bin, s.Kubeconfig)
	stock.NewManager(t, bin, stock.ManagerConfig{
		Kubeconfig: s.Kubeconfig, Controllers: []string{"node-lifecycle-controller", "serviceaccount-controller"}, CA: convergence.Authority,
	})
	return s
}

// addAddress gives this machine nodeAddress until the test ends: a kubelet reports no address of the
// range 127.0.0.0/8, and no other machine should reach one that lets all clients in.
func addAddress(t *testing.T) {
	t.Helper()
	ip := func(verb string) error {
		return exec.Command("ip", "address", verb, nodeAddress+"/32", "dev", "lo").Run()
	}
	_ = ip("del") // of a test that was killed
	if err := ip("add"); err != nil {
		t.Fatalf("ip address add %s = %v, want nil", nodeAddress, err)
	}
	t.Cleanup(func() {
		if err := ip("del"); err != nil {
			t.Errorf("ip address del %s = %v, want nil", nodeAddress, err)
		}
	})
}
