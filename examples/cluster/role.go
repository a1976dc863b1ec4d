package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/plane/kubeflags"
)

// The roles of a process.
const (
	roleAll    = "all"    // a control plane with its nodes
	roleServer = "server" // a control plane
	roleNode   = "node"   // one node of a control plane in another process
)

// joining says how a node of the role node is known.
type joining struct {
	name string     // of the Node
	ip   netip.Addr // where others reach it; not valid where it is to be found
	port int32      // of the kubelet's server
	// cgroup is the parent of the cgroups of pods; empty means one of this cluster's.
	cgroup string
	// server is the URL of the server to join by token and caHashes; empty means that a kubeconfig says all.
	server    string
	token     string
	tokenFile string // has the token, where it is not in token
	caHashes  []string

	ipText string
}

func (o *options) addRole(flags *pflag.FlagSet) {
	flags.StringVar(&o.role, "role", roleAll, "what runs in this process: all, server (the control plane) or node (one node of a control plane elsewhere)")
	flags.StringVar(&o.overlay, "overlay", "vxlan", "how packets get to pods on other machines: vxlan, host-gw or udp")
	flags.StringVar(&o.joining.name, "node-name", "", "with --role node: name of the Node (default the host's name)")
	flags.StringVar(&o.joining.ipText, "node-ip", "", "with --role node: address by which the others reach it (default the first one of the host)")
	flags.Int32Var(&o.joining.port, "kubelet-port", 10250, "with --role node: port of the kubelet's server; 0 picks a free one")
	flags.StringVar(&o.joining.cgroup, "cgroup-root", "", "with --role node: parent of the cgroups of pods (default one of this data directory)")
	flags.StringVar(&o.joining.server, "join", "", "with --role node: URL of the server to join, instead of --kubeconfig")
	flags.StringVar(&o.joining.token, "token", "", "with --join: bootstrap token; not needed once the node has joined")
	flags.StringVar(&o.joining.tokenFile, "token-file", "", "with --join: file with the bootstrap token, which --token shows to all users of the host")
	flags.StringSliceVar(&o.joining.caHashes, "discovery-token-ca-cert-hash", nil, "with --join: hash of the public key of the cluster's authority, such as sha256:...; may be repeated")
	o.serving = kubeflags.AddServing(flags)
	flags.Lookup("tls-cert-file").Usage += "; with --role node and --kubeconfig, the certificate of the kubelet's server"
}

// flagsOfNodes are the flags that a process without nodes does not use, and flagsOfNode those that only
// the role node uses. sharedFlags are the remaining flags that the role node uses.
var (
	flagsOfNodes = []string{"nodes", "machines", "machine-cidr", "restart-machines", "runtime", "containerd-socket", "offline-images", "image-cache", "kubelet-config", "eviction-hard", "pod-manifest-path"}
	flagsOfAll   = []string{"nodes", "machines", "machine-cidr", "restart-machines"} // of flagsOfNodes
	flagsOfNode  = []string{"node-name", "node-ip", "kubelet-port", "cgroup-root", "join", "token", "token-file", "discovery-token-ca-cert-hash"}
	sharedFlags  = []string{"role", "data-dir", "kubeconfig", "registry-mirror", "tls-cert-file", "tls-private-key-file", "verbosity", "help"}
)

// uses reports whether a role uses a flag.
func uses(role, flag string) bool {
	switch role {
	case roleNode:
		return !slices.Contains(flagsOfAll, flag) && slices.Contains(slices.Concat(flagsOfNodes, flagsOfNode, sharedFlags), flag)
	case roleServer:
		return !slices.Contains(flagsOfNodes, flag) && !slices.Contains(flagsOfNode, flag)
	}
	return !slices.Contains(flagsOfNode, flag)
}

// checkRole checks the role, that it uses all flags that were given, and those that it alone has.
func (o *options) checkRole() error {
	if roles := []string{roleAll, roleServer, roleNode}; !slices.Contains(roles, o.role) {
		return fmt.Errorf("--role must be one of %v, not %q", roles, o.role)
	}
	var unused []string
	o.flags.Visit(func(f *pflag.Flag) {
		if !uses(o.role, f.Name) {
			unused = append(unused, "--"+f.Name)
		}
	})
	if len(unused) > 0 {
		return fmt.Errorf("--role %s does not use %s", o.role, strings.Join(unused, ", "))
	}
	switch o.role {
	case roleServer:
		return o.completeServer()
	case roleNode:
		return o.completeNode()
	}
	return nil
}

// completeServer sets what servers have by default: they listen for other machines, nodes join with tokens, and of
// several servers on one etcd one runs the controllers and one the scheduler.
func (o *options) completeServer() error {
	o.nodes = 0
	if o.store.External() {
		if err := o.setDefault("leader-elect", "true"); err != nil {
			return err
		}
	}
	return errors.Join(o.setDefault("listen", "0.0.0.0:6443"), o.setDefault("enable-bootstrap-token-auth", "true"))
}

// setDefault sets a flag that was not given.
func (o *options) setDefault(name, value string) error {
	f := o.flags.Lookup(name)
	if f.Changed {
		return nil
	}
	return f.Value.Set(value)
}

func (o *options) completeNode() (err error) {
	j := &o.joining
	if j.name == "" {
		if j.name, err = os.Hostname(); err != nil {
			return fmt.Errorf("--node-name: %w", err)
		}
		j.name = strings.ToLower(j.name)
	}
	if j.ipText != "" {
		if j.ip, err = netip.ParseAddr(j.ipText); err != nil {
			return fmt.Errorf("--node-ip: %w", err)
		}
	}
	certFile, keyFile := o.serving.Files()
	switch {
	case j.server == "" && o.kubeconfig == "":
		return errors.New("--role node needs --join, or --kubeconfig, the file with the node's credentials")
	case j.server != "" && (o.kubeconfig != "" || certFile != "" || keyFile != ""):
		return errors.New("--join excludes --kubeconfig, --tls-cert-file and --tls-private-key-file: the node gets its own")
	case j.server == "" && (j.token != "" || j.tokenFile != "" || len(j.caHashes) > 0):
		return errors.New("--token, --token-file and --discovery-token-ca-cert-hash need --join")
	case j.token != "" && j.tokenFile != "":
		return errors.New("--token and --token-file exclude each other")
	case j.server == "" && (certFile == "" || keyFile == ""):
		return errors.New("--kubeconfig with --role node needs --tls-cert-file and --tls-private-key-file")
	case j.port < 0 || j.port > 65535:
		return fmt.Errorf("--kubelet-port must be between 0 and 65535, not %d", j.port)
	}
	return nil
}
