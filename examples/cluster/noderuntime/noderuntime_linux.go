package noderuntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/cni/chain"
	"github.com/planekit/planekit/cni/plugins"
	"github.com/planekit/planekit/cni/skel"
	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/plane/stack"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Config describes the runtime of a node. Dir, Name, Bridge, Pods and Plugin must be set.
type Config struct {
	// Socket names the socket of a containerd that was there. Empty means one of the node's own.
	Socket string
	// Dir is the directory of the node's files.
	Dir string
	// Name is the name of the network of pods, and Bridge that of its bridge.
	Name, Bridge string
	// Pods is the range of the addresses of all pods of the cluster.
	Pods netip.Prefix
	// Cgroup is the cgroup of the node's pods. Cleanup removes it.
	Cgroup string
	// Mirrors has the URLs to pull from instead of registries, by the names of the registries.
	Mirrors map[string]string
	// Plugin is the program that the network plugins are links to.
	Plugin string
	// MTU returns the MTU of the interfaces of pods, in bytes, once pods may have a network. Nil means that of the
	// bridge.
	MTU func(context.Context) (int, error)
	// StopNow, when closed, makes the node's own containerd be killed rather than stopped. It may be nil.
	StopNow <-chan struct{}
	// Log is silent when zero.
	Log logr.Logger
}

// Runtime is the runtime of a node, with the network of its pods. It implements nodes.Runtime.
type Runtime struct {
	config Config
	// daemon is the node's own; nil with another's.
	daemon *containerd.Daemon
	// confDir and binDir are where the daemon looks for networks and plugins.
	confDir, binDir string
	// pods is the network, but for the node's range.
	pods chain.Network
}

// New returns a runtime. It starts nothing.
func New(c Config) (*Runtime, error) {
	r := &Runtime{config: c, pods: chain.Network{
		Name: c.Name, Bridge: c.Bridge, ClusterCIDRs: []netip.Prefix{c.Pods}, Masquerade: true, DataDir: filepath.Join(c.Dir, "network"),
	}}
	if c.Socket != "" {
		return r, nil
	}
	r.confDir, r.binDir = filepath.Join(c.Dir, "net.d"), filepath.Join(c.Dir, "plugins")
	var err error
	r.daemon, err = containerd.New(containerd.Config{
		Root:    filepath.Join(c.Dir, "containerd"),
		CNIConf: r.confDir, CNIBin: r.binDir,
		Mirrors: c.Mirrors,
		Known:   cri.ListIDs,
		Log:     c.Log.WithName("containerd"),
	})
	return r, err
}

// Start starts the node's own containerd on s, or finds out where the other one looks for networks and plugins, and
// returns its socket.
func (r *Runtime) Start(ctx context.Context, s *stack.Stack) (string, error) {
	socket := r.config.Socket
	if r.daemon != nil {
		if err := r.daemon.Start(ctx); err != nil {
			return "", err
		}
		s.Start("containerd", func(ctx context.Context) error { return r.supervise(ctx, s) }).Bounded = true
		socket = r.daemon.Socket()
	} else if err := r.askForDirectories(ctx); err != nil {
		return "", err
	}
	return socket, plugins.Install(r.binDir, r.config.Plugin)
}

// supervise keeps the daemon running until ctx is done, and then stops it unless s leaves it.
func (r *Runtime) supervise(ctx context.Context, s *stack.Stack) error {
	r.daemon.Supervise(ctx)
	if s.Leaves() {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	select {
	case <-r.config.StopNow:
		return r.daemon.Kill(ctx)
	default:
		return r.daemon.Stop(ctx)
	}
}

// askForDirectories learns from a containerd that is not ours where it looks for
// networks and plugins.
func (r *Runtime) askForDirectories(ctx context.Context) error {
	socket := r.config.Socket
	containers, err := cri.Dial(ctx, socket, cri.Options{})
	if err != nil {
		return err
	}
	defer containers.Close()
	status, err := containers.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return err
	}
	var config struct {
		CNI struct {
			ConfDir string   `json:"confDir"`
			BinDir  string   `json:"binDir"`
			BinDirs []string `json:"binDirs"`
		} `json:"cni"`
	}
	if err := json.Unmarshal([]byte(status.GetInfo()["config"]), &config); err != nil {
		return fmt.Errorf("%s: read the runtime's configuration: %w", socket, err)
	}
	r.confDir, r.binDir = config.CNI.ConfDir, config.CNI.BinDir
	if r.binDir == "" && len(config.CNI.BinDirs) > 0 {
		r.binDir = config.CNI.BinDirs[0]
	}
	if r.confDir == "" || r.binDir == "" {
		return fmt.Errorf("%s: the runtime does not say where it looks for networks; is it containerd?", socket)
	}
	return nil
}

// Network writes the configuration that makes the runtime call planekit's plugins for pods of the node's range.
func (r *Runtime) Network(ctx context.Context, podCIDR string) error {
	prefix, err := netip.ParsePrefix(podCIDR)
	if err != nil {
		return fmt.Errorf("pod network: %w", err)
	}
	network := r.pods
	network.PodCIDRs = []netip.Prefix{prefix}
	if r.config.MTU != nil {
		if network.MTU, err = r.config.MTU(ctx); err != nil {
			return err
		}
	}
	return network.Write(r.confDir)
}

// ForgetNetwork removes the network of the pods from the kernel.
func (r *Runtime) ForgetNetwork(ctx context.Context) error { return r.pods.Remove(ctx) }

// Cleanup removes the network, the cgroups of pods, and what a containerd that was there has got.
func (r *Runtime) Cleanup(ctx context.Context) error {
	failed := r.pods.Remove(ctx)
	if r.daemon == nil && r.confDir != "" {
		failed = errors.Join(failed, remove(filepath.Join(r.confDir, "10-"+r.pods.Name+".conflist")))
		for _, name := range plugins.Names() {
			if target, err := os.Readlink(filepath.Join(r.binDir, name)); err == nil && target == r.config.Plugin {
				failed = errors.Join(failed, remove(filepath.Join(r.binDir, name)))
			}
		}
	}
	return errors.Join(failed, machine.RemoveCgroups(ctx, r.config.Cgroup))
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// AsPlugin runs this program as a network plugin, where it was called by the
// name of one.
func AsPlugin() (code int, ok bool) {
	return plugins.Main(os.Args[0], skel.Process{
		Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
}
