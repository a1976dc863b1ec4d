package etcdstore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/planekit/planekit/storage/etcdstore"
)

// memberEnv holds the memberConfig of a process that is to be an etcd.
const memberEnv = "PLANEKIT_TEST_ETCD_MEMBER"

func TestMain(m *testing.M) {
	if config := os.Getenv(memberEnv); config != "" {
		fmt.Println(serveMember(config))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

type memberConfig struct {
	Name, Dir, Client, Peer, Cluster string
	Certificate, Key, Authority      string // files
}

const memberReady = "ready"

// serveMember is an etcd until standard input ends, as it does with the test.
func serveMember(text string) error {
	var c memberConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Name, config.Dir, config.InitialCluster = c.Name, c.Dir, c.Cluster
	config.ListenClientUrls = []url.URL{{Scheme: "https", Host: c.Client}}
	config.ListenPeerUrls = []url.URL{{Scheme: "https", Host: c.Peer}}
	config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
	config.ClientTLSInfo = transport.TLSInfo{
		CertFile: c.Certificate, KeyFile: c.Key, TrustedCAFile: c.Authority, ClientCertAuth: true,
	}
	config.PeerTLSInfo = config.ClientTLSInfo
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	<-etcd.Server.ReadyNotify()
	fmt.Println(memberReady)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A member is an etcd of a cluster, in a process of its own.
type member struct {
	config  memberConfig
	process *exec.Cmd
	stdin   io.Closer
	lines   *bufio.Scanner
}

// A quorate is a cluster of three etcds that speak TLS to each other and to
// clients.
type quorate struct {
	authority *authority
	members   []*member
}

func newQuorate(t *testing.T) *quorate {
	t.Helper()
	q := &quorate{authority: newAuthority(t)}
	tls := q.authority.files(t)
	var cluster []string
	for i := range 3 {
		m := &member{config: memberConfig{
			Name: fmt.Sprintf("m%d", i), Dir: filepath.Join(t.TempDir(), "data"), Client: free(t), Peer: free(t),
			Certificate: tls.CertFile, Key: tls.KeyFile, Authority: tls.TrustedCAFile,
		}}
		cluster = append(cluster, fmt.Sprintf("%s=https://%s", m.config.Name, m.config.Peer))
		q.members = append(q.members, m)
	}
	for _, m := range q.members {
		m.config.Cluster = strings.Join(cluster, ",")
		m.start(t)
		t.Cleanup(m.kill)
	}
	for _, m := range q.members {
		m.ready(t)
	}
	return q
}

func (m *member) start(t *testing.T) {
	t.Helper()
	config, err := json.Marshal(m.config)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m.process = exec.Command(binary)
	m.process.Env = append(os.Environ(), memberEnv+"="+string(config))
	out, err := m.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if m.stdin, err = m.process.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := m.process.Start(); err != nil {
		t.Fatal(err)
	}
	m.lines = bufio.NewScanner(out)
}

// ready waits until m serves.
func (m *member) ready(t *testing.T) {
	t.Helper()
	if !m.lines.Scan() || m.lines.Text() != memberReady {
		t.Fatalf("%s said %q, error %v", m.config.Name, m.lines.Text(), m.lines.Err())
	}
}

// kill ends m at once, in whatever it is doing.
func (m *member) kill() {
	if m.process == nil {
		return
	}
	_ = m.process.Process.Kill()
	_ = m.process.Wait() // the error is that it was killed
	_ = m.stdin.Close()
	m.process = nil
}

// pause stops m where it stands, and resume has it go on. A thread that is running when
// the signal is sent may run on for a while: pause waits until all have stopped.
func (m *member) pause(t *testing.T) {
	t.Helper()
	m.signal(t, syscall.SIGSTOP)
	for deadline := time.Now().Add(patience); !m.stopped(t); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a member does not stop")
		}
	}
}

// stopped reports whether all threads of m have stopped (proc_pid_stat(5)); where there is
// no /proc it believes so.
func (m *member) stopped(t *testing.T) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.process.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			return false // it has just ended
		}
		// The name of the thread, in parentheses, may hold anything; the state follows it.
		if state := stat[bytes.LastIndexByte(stat, ')')+1:]; !bytes.HasPrefix(state, []byte(" T ")) {
			return false
		}
	}
	return true
}

func (m *member) resume(t *testing.T) { m.signal(t, syscall.SIGCONT) }

func (m *member) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := m.process.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// store returns a store that knows the members, all if none are given.
func (q *quorate) store(t *testing.T, members ...*member) (*etcdstore.Store, *clientv3.Client) {
	t.Helper()
	if len(members) == 0 {
		members = q.members
	}
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, "https://"+m.config.Client)
	}
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{
		Endpoints: endpoints, TLS: q.authority.client(t), Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	return store, client
}

// leader returns the member that the others follow, first, and the others.
func (q *quorate) leader(t *testing.T, client *clientv3.Client) []*member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		for i, m := range q.members {
			status, err := client.Status(ctx, "https://"+m.config.Client)
			if err != nil {
				t.Fatal(err)
			}
			if status.Leader == status.Header.MemberId {
				return []*member{m, q.members[(i+1)%3], q.members[(i+2)%3]}
			}
		}
	}
}

// given holds the ports that free has returned. Those whose tests run at once are
// not yet listened at when others are looked for.
var given sync.Map

// free returns an address of this machine at which nothing listens, nor will
// soon: its port is not among those that the kernel gives to connections.
func free(t *testing.T) string {
	t.Helper()
	const lowest, ports = 20_000, 12_000
	for {
		port := lowest + rand.IntN(ports)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
}
