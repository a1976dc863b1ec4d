package guest_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/planekit/planekit/examples/cluster/guest"
)

func TestMain(m *testing.M) {
	if guest.IsInit() {
		os.Exit(guest.Init())
	}
	os.Exit(m.Run())
}

func Example() {
	network, err := guest.NewNetwork(guest.NetworkConfig{Bridge: "br0", Prefix: netip.MustParsePrefix("10.9.0.0/29")})
	fmt.Println(err, network.Gateway(), network.Address(0), network.Address(4), network.Address(5).IsValid())
	// Output: <nil> 10.9.0.1 10.9.0.2 10.9.0.6 false
}

func TestRefused(t *testing.T) {
	prefix := netip.MustParsePrefix("10.9.0.0/29")
	for _, c := range []guest.NetworkConfig{
		{Prefix: prefix}, {Bridge: "a-name-that-is-too-long", Prefix: prefix}, {Bridge: "br0"},
		{Bridge: "br0", Prefix: netip.MustParsePrefix("10.9.0.0/31")}, {Bridge: "br0", Prefix: netip.MustParsePrefix("fd00::/64")},
	} {
		if _, err := guest.NewNetwork(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	network, err := guest.NewNetwork(guest.NetworkConfig{Bridge: "br0", Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	good := guest.Config{Name: "n", Port: "p", Dir: "/var/n", Network: network, Address: network.Address(0), Program: []string{"/bin/true"}}
	for name, change := range map[string]func(*guest.Config){
		"name": func(c *guest.Config) { c.Name = "" }, "run": func(c *guest.Config) { c.Dir = "/run/n" },
		"relative": func(c *guest.Config) { c.Program = []string{"true"} }, "address": func(c *guest.Config) { c.Address = netip.MustParseAddr("10.8.0.2") },
	} {
		c := good
		change(&c)
		if _, err := guest.New(c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := guest.New(good); err != nil {
		t.Error(err)
	}
}

// newNetwork makes the network of a test, which must leave nothing of it.
func newNetwork(t *testing.T, bridge, prefix string) *guest.Network {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("machines need root")
		}
		t.Skip("machines need root")
	}
	network, err := guest.NewNetwork(guest.NetworkConfig{Bridge: bridge, Prefix: netip.MustParsePrefix(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Down(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := netlink.LinkByName(bridge); err == nil {
			t.Error("the bridge is left")
		}
	})
	for range 2 { // it may be up
		if err := network.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return network
}

// TestMachine switches a machine on, cuts its power, switches it on again and stops it. Its program finds the host's
// name, an empty /run and another boot each time, and nothing of it is left.
func TestMachine(t *testing.T) {
	suffix := strconv.Itoa(os.Getpid())
	network := newNetwork(t, "pkg"+suffix, "10.64.210.0/28")
	m, err := guest.New(guest.Config{
		Name: "tiny", Port: "pkp" + suffix, Dir: t.TempDir(), Network: network, Address: network.Address(0),
		Program: []string{"/bin/sh", "-c", `echo "$(hostname) $(ls /run | wc -l) $(cat /proc/sys/kernel/random/boot_id)"; touch /run/file; sleep 1000 & wait`},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Kill() })
	on := func(lines int) {
		t.Helper()
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
			text, _ := os.ReadFile(m.Log())
			all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			if len(text) > 0 && len(all) == lines {
				if want := "tiny 0 " + m.Boot(); all[lines-1] != want {
					t.Fatalf("the machine said %q, want %q", all[lines-1], want)
				}
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the machine said %q", text)
			}
		}
	}
	on(1)
	boot, hardware := m.Boot(), hardwareAddress(t, m)
	if err := m.Start(); err == nil {
		t.Error("a machine was started twice")
	}
	for _, connected := range []bool{false, true} {
		if err := m.SetLink(connected); err != nil {
			t.Error(err)
		}
	}
	pid, err := os.ReadFile(filepath.Join(filepath.Dir(m.Log()), "machine.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	if number, err := strconv.Atoi(strings.TrimSpace(string(pid))); err != nil || syscall.Kill(number, 0) == nil {
		t.Errorf("process %q of the machine is left", pid)
	}
	if m.Failure() == nil {
		t.Error("a power cut is no failure")
	}
	on(2)
	if m.Boot() == boot {
		t.Error("two boots have one identity")
	}
	if again := hardwareAddress(t, m); again != hardware {
		t.Errorf("the machine came back with hardware address %s, and had %s", again, hardware)
	}
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := netlink.LinkByName("pkp" + suffix); err == nil {
		if err := m.Kill(); err != nil { // removes the link, which ends with the machine, but maybe later
			t.Error(err)
		}
	}
}

// TestLeave: a machine that was left is on without its program until another owner comes, which finds what was started
// in it. It ends with that owner, if it was meant to be another machine, or if its directory is removed.
func TestLeave(t *testing.T) {
	suffix := strconv.Itoa(os.Getpid())
	network := newNetwork(t, "pkl"+suffix, "10.64.213.0/28")
	const program = `trap 'echo left; exit 0' USR2; [ -e /run/sleeper ] || { setsid sleep 1000 & echo $! > /run/sleeper; }
		until read -r comm < /proc/$(cat /run/sleeper)/comm && [ $comm = sleep ]; do :; done; echo "on $comm $TestLeave"; while :; do sleep 0.01; done`
	config := guest.Config{
		Name: "left", Port: "pkq" + suffix, Dir: filepath.Join(t.TempDir(), strings.Repeat("long", 30)), Network: network, Address: network.Address(0),
		Program: []string{"/bin/sh", "-c", program},
	}
	m, err := guest.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if adopted, err := m.Adopt(); adopted || err != nil {
		t.Fatalf("Adopt before there was a machine: %v, %v", adopted, err)
	}
	t.Setenv("TestLeave", "first")
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Kill() })
	said := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
			text, _ := os.ReadFile(m.Log())
			if strings.HasSuffix(string(text), want+"\n") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the machine said %q, want %q at the end", text, want)
			}
		}
	}
	said("on sleep first")
	boot := m.Boot()
	leave := func() {
		t.Helper()
		if err := m.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		said("left")
	}
	leave()
	if err := m.Leave(t.Context()); err != nil {
		t.Errorf("Leave of a machine that was left: %v", err)
	}

	t.Setenv("TestLeave", "second")
	if m, err = guest.New(config); err != nil {
		t.Fatal(err)
	}
	if adopted, err := m.Adopt(); !adopted || err != nil {
		t.Fatalf("Adopt: %v, %v", adopted, err)
	}
	said("on sleep second")
	if m.Boot() != boot {
		t.Errorf("adopted with boot %s, was %s", m.Boot(), boot)
	}
	if err := m.Start(); err == nil {
		t.Error("an adopted machine was started")
	}
	leave()

	other := config
	other.Address = network.Address(1)
	if m, err = guest.New(other); err != nil {
		t.Fatal(err)
	}
	if adopted, err := m.Adopt(); adopted || err != nil {
		t.Fatalf("Adopt of a machine with another address: %v, %v", adopted, err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	said("on sleep second")
	leave()
	pid, err := os.ReadFile(filepath.Join(config.Dir, "machine.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(config.Dir); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid)) + "/exe"); err != nil {
			break // gone, or a zombie until its parent, this test, waits for it
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s of a machine whose directory was removed is on", pid)
		}
	}

	if m, err = guest.New(config); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	said("on sleep second")
	leave()
	for _, want := range []bool{true, false} {
		if ended, err := guest.End(config.Dir); ended != want || err != nil {
			t.Fatalf("End: %v, %v, want %v", ended, err, want)
		}
	}
	if adopted, err := m.Adopt(); adopted || err != nil {
		t.Errorf("Adopt after End: %v, %v", adopted, err)
	}
}

// hardwareAddress returns that of the machine's eth0.
func hardwareAddress(t *testing.T, m *guest.Machine) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(m.Log()), "machine.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := netns.GetFromPid(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	inside, err := netlink.NewHandleAt(namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	link, err := inside.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	return link.Attrs().HardwareAddr.String()
}
