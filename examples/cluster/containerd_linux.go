package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/cni/chain"
	"github.com/planekit/planekit/cni/plugins"
	"github.com/planekit/planekit/cni/skel"
	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/stack"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerdRuntime is the containerd of one node, with planekit's network
// plugins in its plugin directory.
type containerdRuntime struct {
	// daemon is a containerd of our own; nil where socket names another's.
	daemon *containerd.Daemon
	socket string
	// confDir and binDir are where the daemon looks for networks and plugins.
	confDir, binDir string
	// plugin is the program that the network plugins are links to.
	plugin string
	// pods is the network, but for the node's range.
	pods chain.Network
	// overlay carries packets to other machines; nil where all nodes are on this one.
	overlay *nodeOverlay
	// cgroups is the cgroup that the kubelet's are in.
	cgroups string
	// now is closed when the daemon is to be killed rather than stopped.
	now <-chan struct{}
}

// newContainerdRuntime returns the containerd of one node, not started.
func (c *cluster) newContainerdRuntime(at place, mirrors map[string]string) (nodes.Runtime, error) {
	plugin, err := networkPlugin()
	if err != nil {
		return nil, err
	}
	r := &containerdRuntime{
		socket: c.options.containerdSocket,
		plugin: plugin,
		pods: chain.Network{
			Name:         "planekit-" + c.dir.ID(),
			Bridge:       at.bridge,
			ClusterCIDRs: []netip.Prefix{c.podNetwork},
			Masquerade:   true,
			DataDir:      filepath.Join(at.dir, "network"),
		},
		cgroups: at.cgroup,
		now:     c.options.stopNow,
	}
	if r.socket != "" {
		return r, nil
	}
	r.confDir, r.binDir = filepath.Join(at.dir, "net.d"), filepath.Join(at.dir, "plugins")
	r.daemon, err = containerd.New(containerd.Config{
		Root:    filepath.Join(at.dir, "containerd"),
		CNIConf: r.confDir, CNIBin: r.binDir,
		Mirrors: mirrors,
		Known:   cri.ListIDs,
		Log:     c.log.WithName("containerd").WithValues("node", at.name),
	})
	return r, err
}

func (r *containerdRuntime) Start(ctx context.Context, s *stack.Stack) (string, error) {
	if r.daemon != nil {
		if err := r.daemon.Start(ctx); err != nil {
			return "", err
		}
		s.Start("containerd", r.supervise).Bounded = true
		r.socket = r.daemon.Socket()
	} else if err := r.askForDirectories(ctx); err != nil {
		return "", err
	}
	return r.socket, plugins.Install(r.binDir, r.plugin)
}

// supervise keeps the daemon running until ctx is done, and then stops it.
func (r *containerdRuntime) supervise(ctx context.Context) error {
	r.daemon.Supervise(ctx)
	ctx = context.WithoutCancel(ctx)
	select {
	case <-r.now:
		return r.daemon.Kill(ctx)
	default:
		return r.daemon.Stop(ctx)
	}
}

// askForDirectories learns from a containerd that is not ours where it looks for
// networks and plugins.
func (r *containerdRuntime) askForDirectories(ctx context.Context) error {
	containers, err := cri.Dial(ctx, r.socket, cri.Options{})
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
		return fmt.Errorf("%s: read the runtime's configuration: %w", r.socket, err)
	}
	r.confDir, r.binDir = config.CNI.ConfDir, config.CNI.BinDir
	if r.binDir == "" && len(config.CNI.BinDirs) > 0 {
		r.binDir = config.CNI.BinDirs[0]
	}
	if r.confDir == "" || r.binDir == "" {
		return fmt.Errorf("%s: the runtime does not say where it looks for networks; is it containerd?", r.socket)
	}
	return nil
}

// Network writes the configuration that makes the runtime call planekit-cni.
func (r *containerdRuntime) Network(ctx context.Context, podCIDR string) error {
	prefix, err := netip.ParsePrefix(podCIDR)
	if err != nil {
		return fmt.Errorf("pod network: %w", err)
	}
	network := r.pods
	network.PodCIDRs = []netip.Prefix{prefix}
	if r.overlay != nil {
		if network.MTU, err = r.overlay.mtu(ctx); err != nil {
			return err
		}
	}
	return network.Write(r.confDir)
}

func (r *containerdRuntime) ForgetNetwork(ctx context.Context) error { return r.pods.Remove(ctx) }

func (r *containerdRuntime) Cleanup(ctx context.Context) error {
	failed := r.pods.Remove(ctx)
	if r.daemon == nil && r.confDir != "" {
		failed = errors.Join(failed, remove(filepath.Join(r.confDir, "10-"+r.pods.Name+".conflist")))
		for _, name := range plugins.Names() {
			if target, err := os.Readlink(filepath.Join(r.binDir, name)); err == nil && target == r.plugin {
				failed = errors.Join(failed, remove(filepath.Join(r.binDir, name)))
			}
		}
	}
	return errors.Join(failed, machine.RemoveCgroups(ctx, r.cgroups))
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// networkPlugin is the program that the runtime runs as network plugins: the
// small one beside this program, or this program, which is all of them too but
// takes longer to start.
func networkPlugin() (string, error) {
	if small := beside("planekit-cni"); small != "planekit-cni" {
		return small, nil
	}
	return os.Executable()
}

// asPlugin runs this program as a network plugin, where it was called by the
// name of one.
func asPlugin() (code int, ok bool) {
	return plugins.Main(os.Args[0], skel.Process{
		Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
}
