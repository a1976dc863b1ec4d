//go:build linux

package plugins_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/plugins"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// program is the built multi-call binary.
var program string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "planekit-cni")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "planekit-cni")
	build := exec.Command("go", "build", "-o", program, "../planekit-cni")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// A host is a network namespace that plays the host, so that nothing of the
// real one changes. The test runs in it, on a thread of its own, and so do the
// processes which it starts.
type host struct {
	testing.TB
	// bin is the directory with our plugins.
	bin string
}

// onHost runs f in a fresh host.
func onHost(t testing.TB, f func(h *host)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	bin := filepath.Join(t.TempDir(), "bin")
	if err := plugins.Install(bin, program); err != nil {
		t.Fatal(err)
	}
	h := &host{TB: t, bin: bin}
	path := h.namespace()
	fd, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with f
		if err := netns.Set(fd); err != nil {
			t.Error(err)
			return
		}
		f(h)
	}()
	<-done
}

// namespace makes a named network namespace and returns its path.
func (h *host) namespace() string {
	h.Helper()
	name := fmt.Sprintf("pktest%08x", rand.Uint32())
	errs := make(chan error, 1) // one answer
	go func() {
		runtime.LockOSThread() // the thread is in the new namespace and ends here
		fd, err := netns.NewNamed(name)
		if err == nil {
			err = fd.Close()
		}
		errs <- err
	}()
	if err := <-errs; err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { deleteNamespace(name) })
	return filepath.Join("/run/netns", name)
}

// deleteNamespace succeeds on what is gone.
func deleteNamespace(name string) { _ = netns.DeleteNamed(name) }

// inside runs f on a thread in a namespace. Sockets made by f stay there.
func (h *host) inside(path string, f func() error) {
	h.Helper()
	errs := make(chan error, 1) // one answer
	go func() {
		runtime.LockOSThread()
		fd, err := netns.GetFromPath(path)
		if err == nil {
			err = netns.Set(fd)
			fd.Close()
		}
		if err == nil {
			err = f()
		}
		errs <- err
	}()
	if err := <-errs; err != nil {
		h.Error(err)
	}
}

// patience is how long a test waits for what must come. No machine is so slow:
// what has not come by then never does.
const patience = 2 * time.Minute

// invoker returns an invoker for our plugins, with other directories after.
func (h *host) invoker(path ...string) *cni.Invoker {
	h.Helper()
	i, err := cni.New(cni.Config{Path: append([]string{h.bin}, path...), Dir: filepath.Join(h.bin, "..", "outer"), Timeout: patience})
	if err != nil {
		h.Fatal(err)
	}
	return i
}

func (h *host) list(conf []byte) *cni.List {
	h.Helper()
	l, err := cni.ParseList(conf)
	if err != nil {
		h.Fatal(err)
	}
	return l
}

// A pod is a namespace that was attached.
type pod struct {
	runtime cni.RuntimeConfig
	result  *cni.Result
	ip      net.IP
}

func (h *host) pod(i *cni.Invoker, l *cni.List, name string) *pod {
	h.Helper()
	r := cni.RuntimeConfig{
		ContainerID: name, NetNS: h.namespace(), IfName: "eth0",
		Args: cni.PodArgs("default", name, name, "uid-"+name),
	}
	h.loopback(r)
	result, err := i.Add(h.Context(), l, r)
	if err != nil {
		h.Fatal(err)
	}
	return &pod{runtime: r, result: result, ip: result.IPs[0].Address.Addr().AsSlice()}
}

// loopback sets lo up with the plugin, as runtimes do before all others.
func (h *host) loopback(r cni.RuntimeConfig) *cni.Result {
	h.Helper()
	r.IfName = "lo"
	l := h.list([]byte(`{"cniVersion":"0.3.1","name":"cni-loopback","plugins":[{"type":"loopback"}]}`))
	result, err := h.invoker().Add(h.Context(), l, r)
	if err != nil {
		h.Fatal(err)
	}
	return result
}

// serve makes a pod reply to each connection with the client's address.
func (h *host) serve(p *pod, network, port string) {
	h.Helper()
	h.inside(p.runtime.NetNS, func() error {
		l, err := net.Listen(network, ":"+port)
		if err != nil {
			return err
		}
		done := make(chan struct{})
		h.Cleanup(func() {
			l.Close()
			<-done
		})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				fmt.Fprint(c, host)
				c.Close()
			}
		}()
		return nil
	})
}

// dial connects from a namespace and returns what the other end says.
func (h *host) dial(path string, to net.IP, port string) (string, error) {
	h.Helper()
	var said string
	var err error
	h.inside(path, func() error {
		var c net.Conn
		// The connection is made by this very thread: one address, no resolver.
		if c, err = net.DialTimeout("tcp", net.JoinHostPort(to.String(), port), patience); err != nil {
			return nil
		}
		defer c.Close()
		var data []byte
		data, err = io.ReadAll(c)
		said = string(data)
		return nil
	})
	return said, err
}

// reach checks that from can connect to the other pod, which sees see.
func (h *host) reach(from *pod, to net.IP, see string) {
	h.Helper()
	said, err := h.dial(from.runtime.NetNS, to, "80")
	if err != nil || said != see {
		h.Errorf("%s to %v: the other end sees %q, want %q; %v", from.runtime.ContainerID, to, said, see, err)
	}
}

// run runs a command on the host and returns what it writes.
func (h *host) run(name string, args ...string) string {
	h.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		h.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// rules returns our iptables rules.
func (h *host) rules() []string {
	h.Helper()
	var ours []string
	for _, args := range [][]string{{"-t", "nat", "-S", "POSTROUTING"}, {"-S", "FORWARD"}} {
		for line := range strings.Lines(h.run("iptables", args...)) {
			if strings.Contains(line, "planekit:") {
				ours = append(ours, strings.TrimSpace(line))
			}
		}
	}
	return ours
}

// links returns the names of the host's interfaces of a type.
func (h *host) links(typ string) []string {
	h.Helper()
	all, err := netlink.LinkList()
	if err != nil {
		h.Fatal(err)
	}
	var names []string
	for _, l := range all {
		if l.Type() == typ {
			names = append(names, l.Attrs().Name)
		}
	}
	return names
}

// thread returns the ID of this thread.
func thread() int { return unix.Gettid() }
