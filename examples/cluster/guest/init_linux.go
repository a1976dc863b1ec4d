package guest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// initName is the name by which this program is called as the first process of a machine.
	initName = "planekit-machine-init"
	// eth0 is the name of a machine's link, inside.
	eth0 = "eth0"
	// lineFile is the file descriptor of the listener at which the owner calls.
	lineFile = 3
	// abandonedEvery is how often a machine without an owner looks whether its directory is still there.
	abandonedEvery = 2 * time.Second
)

// orders tell the init of a machine what to do. Later ones have Program and Env, or Leave.
type orders struct {
	Name    string
	Dir     string
	Program []string
	Env     []string
	Address netip.Prefix
	Gateway netip.Addr
	// Leave makes the program end without its containers, and the machine wait for its next owner.
	Leave bool
}

// IsInit reports whether this process is the first one of a machine, which calls Init and nothing else.
func IsInit() bool { return os.Getpid() == 1 && len(os.Args) == 1 && os.Args[0] == initName }

// Init runs a machine, and returns the exit code of its program.
func Init() int {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		return 1
	}
	return code
}

// first has the parts of a machine's first process. When run returns, the kernel kills the other processes.
type first struct {
	line    *net.UnixListener // where owners call
	exits   chan exit         // of the processes that this one inherits
	forked  chan struct{}     // says that there is a child to wait for
	signals chan os.Signal
}

// exit is the end of a process.
type exit struct {
	pid    int
	status syscall.WaitStatus
}

func run() (int, error) {
	file := os.NewFile(lineFile, "line")
	listener, err := net.FileListener(file)
	if err != nil {
		return 0, fmt.Errorf("line: %w", err)
	}
	file.Close()
	f := &first{listener.(*net.UnixListener), make(chan exit), make(chan struct{}, 1), make(chan os.Signal, 8)}
	call, err := f.line.AcceptUnix()
	if err != nil {
		return 0, fmt.Errorf("line: %w", err)
	}
	words, o := json.NewDecoder(call), orders{}
	if err := words.Decode(&o); err != nil {
		return 0, fmt.Errorf("read orders: %w", err)
	}
	if err := o.mount(); err != nil {
		return 0, fmt.Errorf("mounts: %w", err)
	}
	if err := o.connect(); err != nil {
		return 0, fmt.Errorf("network: %w", err)
	}
	if err := syscall.Sethostname([]byte(o.Name)); err != nil {
		return 0, err
	}
	signal.Notify(f.signals, syscall.SIGTERM, syscall.SIGINT)
	go f.reap() // ends with the machine
	for {
		code, left, err := f.serve(o, words)
		call.Close()
		if err != nil || !left {
			return code, err
		}
		if call, err = f.next(filepath.Join(o.Dir, lineName)); err != nil {
			return 0, err
		}
		words, o.Program, o.Env = json.NewDecoder(call), nil, nil
		if err := words.Decode(&o); err != nil {
			return 0, fmt.Errorf("read orders: %w", err)
		}
	}
}

// serve runs the program until it ends, which the machine outlives if left is set, or its owner does.
func (f *first) serve(o orders, words *json.Decoder) (code int, left bool, err error) {
	program, err := syscall.ForkExec(o.Program[0], o.Program, &syscall.ProcAttr{
		Env: o.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, false, fmt.Errorf("start %s: %w", o.Program[0], err)
	}
	select {
	case f.forked <- struct{}{}:
	default: // said already
	}
	said := make(chan orders, 1)
	go func() { // ends when the owner hangs up
		defer close(said)
		for {
			var next orders
			if words.Decode(&next) != nil {
				return
			}
			said <- next
		}
	}()
	kill := func(s syscall.Signal) { _ = syscall.Kill(program, s) } // it may have ended
	for {
		select {
		case s := <-f.signals:
			kill(s.(syscall.Signal))
		case next, ok := <-said:
			switch {
			case !ok && !left: // the owner's process has ended
				return 1, false, nil
			case !ok: // it waits no longer
				said = nil
				kill(syscall.SIGKILL)
			case next.Leave:
				left = true
				kill(LeaveSignal)
			}
		case e := <-f.exits:
			if e.pid != program {
				continue
			}
			if e.status.Signaled() {
				return 128 + int(e.status.Signal()), left, nil
			}
			return e.status.ExitStatus(), left, nil
		}
	}
}

// next waits for the next owner, as long as the machine can be found.
func (f *first) next(line string) (*net.UnixConn, error) {
	look := time.NewTicker(abandonedEvery)
	defer look.Stop()
	type result struct {
		call *net.UnixConn
		err  error
	}
	calls := make(chan result)
	go func() { // ends with a call, or with the machine
		call, err := f.line.AcceptUnix()
		calls <- result{call, err}
	}()
	for {
		select {
		case r := <-calls:
			return r.call, r.err
		case <-f.exits:
		case s := <-f.signals:
			return nil, fmt.Errorf("it has no owner, and got the signal %v", s)
		case <-look.C:
			if _, err := os.Lstat(line); errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("it has no owner: %w", err)
			}
		}
	}
}

// reap waits for all processes, for ever.
func (f *first) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			<-f.forked
		case err == nil && (status.Exited() || status.Signaled()):
			f.exits <- exit{pid, status}
		}
	}
}

// mount gives the machine its own view of the files of the host.
func (o *orders) mount() error {
	// First private, so that nothing gets out, and then shared, as kubelets expect for the propagation of
	// mounts into containers.
	for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", propagation|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := o.emptyRun(); err != nil {
		return fmt.Errorf("/run: %w", err)
	}
	if err := bind(filepath.Join(o.Dir, "cni"), "/var/lib/cni"); err != nil {
		return err
	}
	return o.identify()
}

// emptyRun mounts an empty /run, in which resolv.conf is where it was.
func (o *orders) emptyRun() error {
	resolv, _ := filepath.EvalSymlinks("/etc/resolv.conf") // none: it is left as it is
	var text []byte
	if strings.HasPrefix(resolv, "/run/") {
		text, _ = os.ReadFile(resolv)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	if text == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(resolv), 0o755); err != nil {
		return err
	}
	return os.WriteFile(resolv, text, 0o644)
}

// bind shows the directory from at the path of another. Both are created if missing.
func bind(from, at string) error {
	if err := errors.Join(os.MkdirAll(from, 0o755), os.MkdirAll(at, 0o755)); err != nil {
		return err
	}
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// identify gives the machine an identity, which it keeps, and one of this boot.
func (o *orders) identify() error {
	machine := filepath.Join(o.Dir, "machine-id")
	if _, err := os.Stat(machine); errors.Is(err, fs.ErrNotExist) {
		id := random()
		if err := os.WriteFile(machine, fmt.Appendf(nil, "%x\n", id[:]), 0o644); err != nil {
			return err
		}
	}
	boot, id := filepath.Join(o.Dir, bootFile), random()
	text := fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	if err := os.WriteFile(boot, text, 0o644); err != nil {
		return err
	}
	for from, at := range map[string]string{machine: "/etc/machine-id", boot: "/proc/sys/kernel/random/boot_id"} {
		err := unix.Mount(from, at, "", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, unix.ENOENT) { // a host without one
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

// random returns a random UUID (RFC 9562, version 4).
func random() [16]byte {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// connect brings up the machine's links.
func (o *orders) connect() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	link, err := netlink.LinkByName(eth0)
	if err != nil {
		return fmt.Errorf("link %s: %w", eth0, err)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(o.Address)}); err != nil {
		return err
	}
	for _, l := range []netlink.Link{loopback, link} {
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: o.Gateway.AsSlice()}); err != nil {
		return fmt.Errorf("default route: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}
