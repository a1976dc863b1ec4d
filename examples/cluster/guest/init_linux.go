package guest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// initName is the name by which this program is called as the first process of a machine.
	initName = "planekit-machine-init"
	// eth0 is the name of a machine's link, inside.
	eth0 = "eth0"
	// lifeFile is the file descriptor with the orders, which is closed when the machine is to end.
	lifeFile = 3
)

// orders hold what the init of a machine has to do.
type orders struct {
	Name    string
	Dir     string
	Program []string
	Address netip.Prefix
	Gateway netip.Addr
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

func run() (int, error) {
	unix.CloseOnExec(lifeFile)
	life := os.NewFile(lifeFile, "life")
	var o orders
	decoder := json.NewDecoder(life)
	if err := decoder.Decode(&o); err != nil {
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
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() { // ends with the machine
		_, _ = io.Copy(io.Discard, life) // until the host's process has ended
		os.Exit(1)
	}()
	program, err := syscall.ForkExec(o.Program[0], o.Program, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", o.Program[0], err)
	}
	go func() { // ends with the machine
		for s := range signals {
			_ = syscall.Kill(program, s.(syscall.Signal)) // it may have ended
		}
	}()
	return reap(program)
}

// reap waits for all processes until the program has ended. When this process returns, the kernel kills the
// others.
func reap(program int) (int, error) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case pid == program && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == program && status.Exited():
			return status.ExitStatus(), nil
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
