//go:build linux

package lives_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/cni/chain"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/stack"
)

// kubeletVariable has the settings of the process that runs the kubelet, in JSON.
const kubeletVariable = "PLANEKIT_LIVES_KUBELET"

// nodeName is the name of the node.
const nodeName = "node-1"

// settings holds what a kubelet is started with.
type settings struct {
	Kubeconfig string
	// Dir has the directories kubelet, logs and net.d.
	Dir    string
	Socket string
	Cgroup string
	// Network gets the range of the node.
	Network chain.Network
}

// startedFile is a file descriptor that the process closes once a signal ends it in an orderly way.
const startedFile = 3

// TestMain runs the kubelet in the processes that a node starts for it.
func TestMain(m *testing.M) {
	text := os.Getenv(kubeletVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := os.NewFile(startedFile, "started").Close(); err != nil {
		log.Fatal(err)
	}
	go func() { // ends with the process: standard input is open for as long as the test runs
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if err := runKubelet(ctx, s); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// runKubelet runs the kubelet until ctx is done.
func runKubelet(ctx context.Context, s settings) error {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	said := funcr.New(func(_, line string) { log.Println(line) }, funcr.Options{Verbosity: 2})
	api, err := kubeconfig.Connect(s.Kubeconfig)
	if err != nil {
		return err
	}
	defer api.Close()
	containers, err := cri.Dial(ctx, s.Socket, cri.Options{})
	if err != nil {
		return err
	}
	defer containers.Close()
	mine := fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	pods, err := caches.Of(typed.Pods(api).Where("", "", mine), said)
	if err != nil {
		return err
	}
	k, err := kubelet.New(kubelet.Config{
		NodeName: nodeName, Root: filepath.Join(s.Dir, "kubelet"), LogRoot: filepath.Join(s.Dir, "logs"),
		CgroupRoot: s.Cgroup + "/kubepods",
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		Runtime:    containers, Images: containers,
		Pods: pods, PodStatus: typed.Pods(api), Nodes: typed.Nodes(api), Leases: typed.Leases(api), Events: typed.Events(api),
		Secrets: typed.Secrets(api).Get, ConfigMaps: typed.ConfigMaps(api).Get, Tokens: nodes.RequestTokens(api),
		// The machine is not the kubelet's own.
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}}, ImageGC: kubelet.ImageGC{High: 100},
		Network: func(_ context.Context, cidr string) error {
			prefix, err := netip.ParsePrefix(cidr)
			if err != nil {
				return err
			}
			network := s.Network
			network.PodCIDRs = []netip.Prefix{prefix}
			return network.Write(filepath.Join(s.Dir, "net.d"))
		},
		Log: said,
	})
	if err != nil {
		return err
	}
	p := stack.New()
	p.Start("pods", pods.Run)
	p.Start("kubelet", k.Run)
	if err := p.Await(ctx, k.Ready()); err != nil {
		return err
	}
	log.Printf("the kubelet is ready (pid %d)", os.Getpid())
	err = p.Run(ctx)
	if stopped := p.Stop(); stopped != nil {
		return fmt.Errorf("stop: %w", stopped)
	}
	return err
}
