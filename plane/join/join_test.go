package join_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/pki/clusterinfo"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/join"
	"github.com/planekit/planekit/plane/planetest"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// start starts a control plane that nodes can join.
func start(t *testing.T, options ...planetest.Option) *planetest.Plane {
	t.Helper()
	return planetest.Start(t, append(options, planetest.With(func(c *plane.Config) { c.BootstrapTokens = true }))...)
}

func invite(t *testing.T, p *planetest.Plane, change ...func(*join.InviteConfig)) *join.Invitation {
	t.Helper()
	config := join.InviteConfig{Client: p.Client(), Server: p.URL(), CA: p.Credentials.Authority.CertificatePEM}
	for _, c := range change {
		c(&config)
	}
	invitation, err := join.Invite(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return invitation
}

// newConfig returns the configuration of node-1, which joins by an invitation.
func newConfig(t *testing.T, p *planetest.Plane, i *join.Invitation) join.Config {
	return join.Config{
		Server: i.Server, Token: i.Token, CAHashes: i.CAHashes, Node: "node-1", Dir: t.TempDir(),
		Addresses: func() ([]netip.Addr, []string) {
			return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, []string{"node-1"}
		},
		Dial: p.REST("test").Dial,
		Log:  funcr.New(func(_, args string) { t.Log(args) }, funcr.Options{}),
	}
}

func newJoiner(t *testing.T, c join.Config) *join.Joiner {
	t.Helper()
	j, err := join.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// run runs a Joiner until the test ends or stop is called.
func run(t *testing.T, j *join.Joiner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- j.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// register creates the Node object as a kubelet does, with its addresses.
func register(t *testing.T, api *client.Client, addresses ...string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	if _, err := typed.Nodes(api).Create(t.Context(), node); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	list := `{"type":"Hostname","address":"node-1"}`
	for _, address := range addresses {
		list += `,{"type":"InternalIP","address":"` + address + `"}`
	}
	if _, err := typed.Nodes(api).Patch(t.Context(), "", "node-1", "application/merge-patch+json", []byte(`{"status":{"addresses":[`+list+`]}}`), "status"); err != nil {
		t.Fatal(err)
	}
}

// TestJoin takes a node from an invitation to both certificates, over TLS.
func TestJoin(t *testing.T) {
	p := start(t)
	config := newConfig(t, p, invite(t, p))
	j := newJoiner(t, config)
	if _, err := j.ServingCertificate(nil); !errors.Is(err, join.ErrNotIssued) {
		t.Error(err)
	}
	if err := j.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	api, err := kubeconfig.Connect(j.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	run(t, j)
	register(t, api, "10.1.2.3")
	var serving *tls.Certificate
	planetest.Eventually(t, func() (err error) { serving, err = j.ServingCertificate(nil); return err })
	leaf := serving.Leaf
	if leaf.Subject.String() != "CN=system:node:node-1,O=system:nodes" || fmt.Sprint(leaf.DNSNames, leaf.IPAddresses) != "[node-1] [10.1.2.3]" {
		t.Errorf("the serving certificate has subject %s and names %v %v, want CN=system:node:node-1,O=system:nodes and [node-1] [10.1.2.3]",
			leaf.Subject, leaf.DNSNames, leaf.IPAddresses)
	}
	for path, mode := range map[string]fs.FileMode{
		"kubeconfig": 0o600, "pki/kubelet-client-current.pem": 0o600, "pki/kubelet-server-current.pem": 0o600, "pki/ca.crt": 0o644,
	} {
		info, err := os.Stat(filepath.Join(config.Dir, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("Stat(%s) = %v, %v, want the mode %v (%d)", path, info, err, mode, mode)
		}
	}
	if left, err := filepath.Glob(filepath.Join(config.Dir, "pki", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// TestJoinTwice: a machine that starts again needs neither the token nor the server.
func TestJoinTwice(t *testing.T) {
	p := start(t)
	config := newConfig(t, p, invite(t, p))
	if err := newJoiner(t, config).Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := typed.CertificateSigningRequests(p.Client()).Get(t.Context(), "", firstRequest(t, p))
	if err != nil || before.Spec.Username != "system:bootstrap:"+config.Token[:6] {
		t.Errorf("the first request is %+v, %v, want one by system:bootstrap:%s", before, err, config.Token[:6])
	}
	config.Token, config.Dial = "", away
	again := newJoiner(t, config)
	if err := again.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if certificate, err := again.ClientCertificate(nil); err != nil || certificate.Leaf == nil {
		t.Error(err)
	}
	// Another server of the same cluster needs no new certificate.
	config.Server = "https://other.example.com"
	moved := newJoiner(t, config)
	if err := moved.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(moved.Kubeconfig()); err != nil || !strings.Contains(string(text), config.Server) {
		t.Errorf("the kubeconfig after the move is %s, %v, want the server %s", text, err, config.Server)
	}
	// Torn files, those of another node, and those of another cluster are replaced, which needs the token.
	for name, change := range map[string]func(*join.Config){
		"torn": func(c *join.Config) {
			path := filepath.Join(c.Dir, "pki", "kubelet-client-current.pem")
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, data[:len(data)/2], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"another node":    func(c *join.Config) { c.Node = "node-2" },
		"another cluster": func(c *join.Config) { c.CAHashes = []string{"sha256:" + strings.Repeat("0", 64)} },
	} {
		changed := config
		changed.Dir = t.TempDir()
		if err := os.CopyFS(changed.Dir, os.DirFS(config.Dir)); err != nil {
			t.Fatal(err)
		}
		change(&changed)
		if err := newJoiner(t, changed).Join(t.Context()); !errors.Is(err, join.ErrToken) {
			t.Errorf("%s: Join() with the files of before and no token = %v, want ErrToken", name, err)
		}
	}
}

// firstRequest returns the name of a signing request.
func firstRequest(t *testing.T, p *planetest.Plane) string {
	t.Helper()
	all, _, err := typed.CertificateSigningRequests(p.Client()).List(t.Context(), "", metav1.ListOptions{})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	return all[0].Name
}

// TestRefused: each reason not to join is one sentence.
func TestRefused(t *testing.T) {
	synctest.Test(t, testRefused)
}

func testRefused(t *testing.T) {
	p := start(t, planetest.WithoutNetwork())
	invitation := invite(t, p)
	foreign, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(invitation.Token, ".")
	signing := invite(t, p)
	if _, err := typed.Secrets(p.Client()).Patch(t.Context(), "kube-system", "bootstrap-token-"+signing.Token[:6], "application/merge-patch+json",
		[]byte(`{"data":{"usage-bootstrap-authentication":null}}`)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*join.Config)
		is     error
		want   string
	}{
		"wrong hash": {func(c *join.Config) { c.CAHashes = []string{clusterinfo.PublicKeyHash(foreign.Certificate)} }, join.ErrAuthority,
			"join: the cluster is not the expected one: no authority of " + p.URL() + " has the hash sha256:"},
		"no hash": {func(c *join.Config) { c.CAHashes = nil }, join.ErrAuthority, "no hash of an authority is given"},
		"unknown token": {func(c *join.Config) { c.Token = "aaaaaa.0123456789abcdef" }, join.ErrToken,
			"join: the token is not valid: the cluster at " + p.URL() + " does not know the token aaaaaa, or it has expired"},
		"wrong secret part": {func(c *join.Config) { c.Token = id + ".0123456789abcdef" }, join.ErrToken,
			"join: the token is not valid: the secret part of the token " + id + " is not that of the cluster at " + p.URL()},
		"token for signing alone": {func(c *join.Config) { c.Token = signing.Token }, join.ErrToken,
			"does not accept the token " + signing.Token[:6] + ": it has expired or was deleted, or is not meant for authentication"},
		"server away": {func(c *join.Config) { c.Dial = away }, join.ErrUnreachable, "join: the server cannot be reached: " + p.URL() + ": no route to host"},
		"another name": {func(c *join.Config) {
			c.Server = strings.Replace(p.URL(), "127.0.0.1", "127.0.0.2", 1)
			c.Dial = to(p, c.Dial)
		}, join.ErrAuthority, "127.0.0.2"},
	} {
		config := newConfig(t, p, invitation)
		c.change(&config)
		err := newJoiner(t, config).Join(t.Context())
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), invitation.Token)) {
			t.Errorf("%s: Join() = %q, want one line without the token", name, err)
		}
		if files, err := os.ReadDir(config.Dir); err != nil || len(files) > 0 {
			t.Errorf("%s: files %v, %v", name, files, err)
		}
	}
}

// to dials the control plane, whatever the address.
func to(p *planetest.Plane, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, p.Addr().String())
	}
}

// away dials a server that is away.
func away(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no route to host")
}

// TestJoinWhenReachable: a node waits for a server that is away, says so once, and joins when it answers. It does not
// wait for one that refuses it, and not longer than its context.
func TestJoinWhenReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, planetest.WithoutNetwork())
		config := newConfig(t, p, invite(t, p))
		var lines []string
		config.Log = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		dial, back := config.Dial, time.Now().Add(10*time.Second)
		config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if time.Now().Before(back) {
				return away(ctx, network, address)
			}
			return dial(ctx, network, address)
		}
		if err := newJoiner(t, config).JoinWhenReachable(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(lines, "\n"); strings.Count(text, "waiting for the control plane") != 1 {
			t.Errorf("it said %s", text)
		}
		refused := newConfig(t, p, invite(t, p))
		refused.CAHashes = nil
		if err := newJoiner(t, refused).JoinWhenReachable(t.Context()); !errors.Is(err, join.ErrAuthority) {
			t.Errorf("refused: %v", err)
		}
		gone := newConfig(t, p, invite(t, p))
		gone.Dial = away
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := newJoiner(t, gone).JoinWhenReachable(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("away: %v", err)
		}
	})
}

// TestDenied: a request that a person denies, and one without a decision.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, planetest.WithoutNetwork(), planetest.With(func(c *plane.Config) {
			c.Controllers.Choose = []string{"*", "-certificatesigningrequest-approving-controller"}
		}))
		config := newConfig(t, p, invite(t, p))
		ended := make(chan error, 1)
		go func() { ended <- newJoiner(t, config).Join(t.Context()) }()
		time.Sleep(time.Minute)
		requests := typed.CertificateSigningRequests(p.Client())
		if _, err := requests.Patch(t.Context(), "", firstRequest(t, p), "application/merge-patch+json",
			[]byte(`{"status":{"conditions":[{"type":"Denied","status":"True","reason":"KubectlDeny","message":"not this one"}]}}`), "approval"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, join.ErrDenied) || !strings.HasSuffix(err.Error(), "was denied: KubectlDeny: not this one") {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := newJoiner(t, config).Join(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has no certificate after 1m0s") {
			t.Error(err)
		}
	})
}

// TestClock: the certificate of a server is not valid yet, or no longer.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kubeconfigText = `{"clusters":[{"name":"","cluster":{"server":"","certificate-authority-data":"%s"}}]}`
		authority, err := pki.New()
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(kubeconfigText, base64.StdEncoding.EncodeToString(authority.CertificatePEM))
		body, err := json.Marshal(map[string]any{"data": map[string]string{
			clusterinfo.Key: text, clusterinfo.SignatureKey("abcdef"): clusterinfo.Sign(text, "abcdef", "0123456789abcdef"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		for begin, want := range map[time.Duration]string{
			time.Hour: "is valid from 2000-01-01T01:00:00Z", -2 * time.Hour: "expired at 1999-12-31T23:00:00Z",
		} {
			template := &x509.Certificate{
				SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(begin), NotAfter: time.Now().Add(begin + time.Hour), DNSNames: []string{"server"},
			}
			der, err := x509.CreateCertificate(rand.Reader, template, authority.Certificate, authority.Key.Public(), authority.Key)
			if err != nil {
				t.Fatal(err)
			}
			serving := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: authority.Key}}}
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }), ErrorLog: log.New(io.Discard, "", 0)}
			network := bufconn.Listen(1 << 16)
			ended := make(chan error, 1)
			go func() { ended <- server.Serve(tls.NewListener(network, serving)) }()
			err = newJoiner(t, join.Config{
				Server: "https://server", Token: "abcdef.0123456789abcdef", CAHashes: []string{clusterinfo.PublicKeyHash(authority.Certificate)},
				Node: "node-1", Dir: t.TempDir(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return network.DialContext(ctx) },
			}).Join(t.Context())
			if !errors.Is(err, join.ErrClock) || !strings.Contains(err.Error(), "the clock says 2000-01-01T00:00:00Z, and the certificate of https://server "+want) {
				t.Error(err)
			}
			server.Close()
			<-ended
		}
	})
}
