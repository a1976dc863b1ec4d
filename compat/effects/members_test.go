package effects

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
)

const (
	program  = "../../bin/stock/etcd"
	patience = 30 * time.Second
)

// A member is a stock etcd. Clients and its peers reach it through proxies.
type member struct {
	name, id     string
	arguments    []string
	process      *exec.Cmd
	client, peer *proxy
}

// members are a cluster of three.
type members []*member

func startMembers(t *testing.T) members {
	t.Helper()
	binary, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	var all members
	var cluster []string
	dir := t.TempDir()
	for i := range 3 {
		client, peer := free(t), free(t)
		m := &member{name: fmt.Sprintf("m%d", i), client: newProxy(t, client, false), peer: newProxy(t, peer, true)}
		m.arguments = []string{
			binary, "--name", m.name, "--data-dir", filepath.Join(dir, m.name), "--log-level", "panic", "--unsafe-no-fsync",
			"--heartbeat-interval", "50", "--election-timeout", "500",
			"--listen-client-urls", "http://" + client, "--advertise-client-urls", "http://" + m.client.address,
			"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + m.peer.address,
		}
		cluster = append(cluster, m.name+"=http://"+m.peer.address)
		all = append(all, m)
	}
	for _, m := range all {
		m.arguments = append(m.arguments, "--initial-cluster", strings.Join(cluster, ","))
		m.start(t)
		t.Cleanup(m.kill)
	}
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{Endpoints: all.endpoints(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range list.Members {
		for _, m := range all {
			if m.name == listed.Name {
				m.id = fmt.Sprintf("%x", listed.ID)
			}
		}
	}
	return all
}

func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (all members) endpoints() (urls []string) {
	for _, m := range all {
		urls = append(urls, "http://"+m.client.address)
	}
	return urls
}

// store returns a store that reaches the members through a connection of its own.
func (all members) store(t *testing.T) storage.Store {
	t.Helper()
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{Endpoints: all.endpoints(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store, err := etcdstore.New(etcdstore.Config{Client: client, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func (m *member) start(t *testing.T) {
	t.Helper()
	m.process = exec.Command(m.arguments[0], m.arguments[1:]...)
	m.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.process.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
}

func (m *member) kill() {
	if m.process != nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait() // the error is that it was killed
		m.process = nil
	}
}

// faults lists what can happen to a member for a while.
var faults = []struct {
	name string
	run  func(t *testing.T, all members, m *member, d time.Duration)
}{
	{"killed", func(t *testing.T, _ members, m *member, d time.Duration) {
		m.kill()
		pause(t, d)
		m.start(t)
	}},
	{"paused", func(t *testing.T, _ members, m *member, d time.Duration) {
		_ = m.process.Process.Signal(syscall.SIGSTOP)
		pause(t, d)
		_ = m.process.Process.Signal(syscall.SIGCONT)
	}},
	{"cut off from its peers", func(t *testing.T, all members, m *member, d time.Duration) {
		for _, other := range all {
			from := m.id
			if other == m {
				from = ""
			}
			other.peer.cut(from, true)
			defer other.peer.heal(from)
		}
		pause(t, d)
	}},
	{"heard no more by its clients", func(t *testing.T, _ members, m *member, d time.Duration) {
		m.client.silence()
		pause(t, d)
		m.client.cut("", false)
	}},
	{"cut off from its clients", func(t *testing.T, _ members, m *member, d time.Duration) {
		m.client.cut("", true)
		pause(t, d)
		m.client.heal("")
	}},
}

// pause lets a fault last.
func pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// trouble makes a random fault of a random member after the other until ctx ends, and then waits until all
// members serve.
func (all members) trouble(ctx context.Context, t *testing.T, random *rand.Rand, count map[string]int) {
	for ctx.Err() == nil {
		m, fault := all[random.IntN(len(all))], faults[random.IntN(len(faults))]
		fault.run(t, all, m, 200*time.Millisecond+time.Duration(random.IntN(1300))*time.Millisecond)
		count[fault.name]++
		pause(t, time.Duration(random.IntN(1000))*time.Millisecond)
	}
	for _, m := range all {
		ready, cancel := context.WithTimeout(t.Context(), patience)
		one, err := etcdstore.Dial(ready, etcdstore.DialConfig{Endpoints: members{m}.endpoints(), Timeout: patience})
		cancel()
		if err != nil {
			t.Errorf("%s does not recover: %v", m.name, err)
			continue
		}
		_ = one.Close()
	}
}
