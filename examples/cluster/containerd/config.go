package containerd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/go-logr/logr"
)

// Config configures [New].
type Config struct {
	// Root is the directory for images, containers' file systems, logs and the
	// configuration file; required, absolute.
	Root string
	// CNIConf is the directory that the CRI plugin reads networks from, CNIBin
	// the one with the plugins; both required.
	CNIConf, CNIBin string
	// SandboxImage is the pause image; empty means registry.k8s.io/pause:3.10.
	SandboxImage string
	// Mirrors sends pulls of a registry elsewhere: host to URL, such as docker.io
	// to http://127.0.0.1:40123.
	Mirrors map[string]string
	// Known lists the sandboxes and containers that the daemon knows, by id. With
	// it, Start removes what an earlier daemon was killed in the middle of making.
	// It is called again after an error. May be nil.
	Known func(ctx context.Context, socket string) (map[string]bool, error)
	// Log gets what happens to the daemon; silent when zero. The daemon's own log
	// is in Root.
	Log logr.Logger
}

// runDir holds state and sockets. It is on a tmpfs: nothing in it should outlast
// the machine's uptime.
const runDir = "/run/planekit"

func (c *Config) check() error {
	if !filepath.IsAbs(c.Root) {
		return fmt.Errorf("containerd: root %q is not an absolute path", c.Root)
	}
	if c.CNIConf == "" || c.CNIBin == "" {
		return errors.New("containerd: no directory for CNI configuration or plugins")
	}
	if c.SandboxImage == "" {
		c.SandboxImage = "registry.k8s.io/pause:3.10"
	}
	return nil
}

// state is the daemon's directory in /run.
func (c *Config) state() string {
	return filepath.Join(runDir, fmt.Sprintf("%x", sha256.Sum256([]byte(c.Root)))[:12])
}

// configuration is understood by containerd 1.6 and up; 2.x converts it.
//
// netns_mounts_under_state_dir: the network namespaces of this daemon are distinct
// from those of other daemons, and `ip netns` does not mount anything over them.
//
// restrict_oom_score_adj: a daemon without CAP_SYS_RESOURCE cannot give a
// sandbox a lower score than its own, and every sandbox would fail.
var configuration = template.Must(template.New("config.toml").Parse(`version = 2
root = {{printf "%q" .Root}}
state = {{printf "%q" .State}}
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = {{printf "%q" .Socket}}

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {{printf "%q" .SandboxImage}}
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {{printf "%q" .CNIBin}}
    conf_dir = {{printf "%q" .CNIConf}}

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {{printf "%q" .Certs}}
`))

// writeConfig writes the daemon's configuration file and the mirrors, which
// containerd reads at every pull.
func (d *Daemon) writeConfig() error {
	for _, dir := range []string{d.config.Root, d.config.CNIConf, d.config.state(), d.certs()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for host, url := range d.config.Mirrors {
		dir := filepath.Join(d.certs(), host)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		hosts := fmt.Sprintf("server = %q\n\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", url, url)
		if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o600); err != nil {
			return err
		}
	}
	var text strings.Builder
	err := configuration.Execute(&text, struct {
		Config
		State, Socket, Certs string
	}{d.config, d.config.state(), d.Socket(), d.certs()})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(d.config.state(), rootFile), []byte(d.config.Root), 0o600),
		os.WriteFile(d.configFile(), []byte(text.String()), 0o600),
	)
}

// rootFile is the file of a state directory that tells whose it is.
const rootFile = "root"

// Roots returns the Config.Root of each daemon that has a state directory on this
// machine, whether it runs or not.
func Roots() []string {
	files, _ := filepath.Glob(filepath.Join(runDir, "*", rootFile)) // the pattern is well formed
	var roots []string
	for _, file := range files {
		if root, err := os.ReadFile(file); err == nil && filepath.IsAbs(string(root)) {
			roots = append(roots, string(root))
		}
	}
	return roots
}

func (d *Daemon) certs() string      { return filepath.Join(d.config.Root, "certs.d") }
func (d *Daemon) configFile() string { return filepath.Join(d.config.Root, "config.toml") }
func (d *Daemon) logFile() string    { return filepath.Join(d.config.Root, "containerd.log") }
