package compat

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// TestFollow: client-go's informers and planekit's follow both servers through every event in the
// life of a watch, and report the same changes.
func TestFollow(t *testing.T) {
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name, client, shows string
		begin               func(*testing.T) followed
		follow              follower
	}{
		{
			"client-go", "client-go", "informers through lost connections, bookmarks, a server that starts anew and one that has compacted what was missed, as with a stock kube-apiserver",
			beginOurs, followByClientGo,
		},
		{
			"informer", "kube-apiserver", "package informer follows it: list and watch, bookmarks, lost connections, a server that starts anew, " +
				"a new list as a diff where it has compacted what was missed", func(t *testing.T) followed { return beginStock(t, bin) }, followByInformer,
		},
		{"reference", "", "", func(t *testing.T) followed { return beginStock(t, bin) }, followByClientGo},
		{"both", "", "", beginOurs, followByInformer},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			if kind.client != "" {
				shows(t, kind.client, kind.shows)
			}
			testFollow(t, kind.begin(t), kind.follow)
		})
	}
}

// followed is a server that can be restarted.
type followed interface {
	// config returns the client configuration, also after a restart.
	config() *rest.Config
	// restart restarts the server with its objects.
	restart()
	// forget makes the server forget revisions before a resourceVersion.
	forget(version string)
}

// A follower reports changes of config maps in the namespace default. It uses a transport that wrap
// wraps.
type follower func(t *testing.T, config *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) <-chan change

func testFollow(t *testing.T, server followed, follow follower) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	maps := clientset(t, server.config()).CoreV1().ConfigMaps("default")
	write(ctx, t, maps, "kept", "1")
	write(ctx, t, maps, "first", "1")
	cut := &cutter{}
	seen := follow(t, server.config(), cut.wrap)
	expect(t, seen, change{"add", "first", "1"}, change{"add", "kept", "1"})
	write(ctx, t, maps, "first", "2")
	expect(t, seen, change{"update", "first", "2"})

	// Changes during a lost connection are reported in order, without a new list.
	lists := cut.lists()
	cut.cut()
	write(ctx, t, maps, "first", "3")
	write(ctx, t, maps, "second", "1")
	cut.release()
	expectInOrder(t, seen, change{"update", "first", "3"}, change{"add", "second", "1"})
	if now := cut.lists(); now != lists {
		t.Errorf("%d lists, %d before the connection was lost", now, lists)
	}

	// Followers reconnect to a restarted server, and report nothing twice.
	server.restart()
	write(ctx, t, maps, "first", "4")
	expect(t, seen, change{"update", "first", "4"})

	// If the server has forgotten a revision, followers list again and report the differences.
	lists = cut.lists()
	cut.cut()
	if err := maps.Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	last := write(ctx, t, maps, "third", "1")
	server.forget(last)
	cut.release()
	expect(t, seen, change{"add", "third", "1"}, change{"delete", "first", "4"})
	if now := cut.lists(); now == lists {
		t.Error("there was no new list, though the server has forgotten what was missed")
	}
	write(ctx, t, maps, "kept", "2")
	expect(t, seen, change{"update", "kept", "2"})

	// Bookmarks advance a watch that receives no changes.
	lists = cut.lists()
	cut.shorten("3")
	cut.cut()
	cut.release()
	elsewhere, err := clientset(t, server.config()).CoreV1().ConfigMaps("kube-system").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version, err := strconv.ParseInt(elsewhere.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, func() (bool, string) {
		return cut.from() >= version, fmt.Sprintf("a watch from %d, the server is at %d", cut.from(), version)
	})
	if now := cut.lists(); now != lists {
		t.Errorf("%d lists, %d before watches ended in peace", now, lists)
	}
	select {
	case more := <-seen:
		t.Errorf("told of %v, too", more)
	default:
	}
}

// write creates or changes a config map, and returns its resourceVersion.
func write(ctx context.Context, t *testing.T, maps typedcore.ConfigMapInterface, name, value string) string {
	t.Helper()
	object := configMap(name, map[string]string{"value": value})
	var stored *corev1.ConfigMap
	var err error
	if value == "1" {
		stored, err = maps.Create(ctx, object, metav1.CreateOptions{})
	} else {
		stored, err = maps.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return stored.ResourceVersion
}

// expect takes as many changes as are wanted, in any order.
func expect(t *testing.T, seen <-chan change, want ...change) {
	t.Helper()
	got := take(t, seen, len(want))
	order := func(a, b change) int { return strings.Compare(a.what+a.name, b.what+b.name) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Fatalf("told %v, want %v", got, want)
	}
}

func expectInOrder(t *testing.T, seen <-chan change, want ...change) {
	t.Helper()
	if got := take(t, seen, len(want)); !slices.Equal(got, want) {
		t.Fatalf("told %v, want %v", got, want)
	}
}

// take takes n changes. A client that finds a closed port increases its delay before each attempt,
// up to 30 s.
func take(t *testing.T, seen <-chan change, n int) []change {
	t.Helper()
	var got []change
	for range n {
		select {
		case c := <-seen:
			got = append(got, c)
		case <-time.After(patience):
			t.Fatalf("told %v and no more for %v", got, patience)
		}
	}
	return got
}

// followByClientGo follows with an informer of client-go.
func followByClientGo(t *testing.T, config *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) <-chan change {
	t.Helper()
	watched := rest.CopyConfig(config)
	watched.Wrap(wrap)
	factory := informers.NewSharedInformerFactoryWithOptions(clientset(t, watched), 0, informers.WithNamespace("default"))
	seen := make(chan change, 100) // more than the test makes
	handler := tellTo(seen)
	update := handler.UpdateFunc
	handler.UpdateFunc = func(old, new any) {
		// After a new list it also reports unchanged objects.
		if old.(*corev1.ConfigMap).ResourceVersion != new.(*corev1.ConfigMap).ResourceVersion {
			update(old, new)
		}
	}
	if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	factory.StartWithContext(ctx)
	return seen
}

// followByInformer follows with an informer of planekit.
func followByInformer(t *testing.T, config *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) <-chan change {
	t.Helper()
	wire := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	api, err := client.New(client.Config{Server: config.Host, BearerToken: config.BearerToken, Transport: wrap(wire)})
	if err != nil {
		t.Fatal(err)
	}
	copied, err := informer.For(typed.ConfigMaps(api).Where("default", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan change, 100) // more than the test makes
	copied.Subscribe(func(old, new *corev1.ConfigMap) {
		switch {
		case old == nil:
			seen <- change{"add", new.Name, new.Data["value"]}
		case new == nil:
			seen <- change{"delete", old.Name, old.Data["value"]}
		default:
			seen <- change{"update", new.Name, new.Data["value"]}
		}
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- copied.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		wire.CloseIdleConnections()
	})
	return seen
}

// stockFollowed is a kube-apiserver.
type stockFollowed struct {
	t      *testing.T
	server *stock.Server
}

func beginStock(t *testing.T, bin string) followed { return &stockFollowed{t, stock.NewServer(t, bin)} }

func (f *stockFollowed) config() *rest.Config { return insecure(f.server.URL, f.server.Token) }

func (f *stockFollowed) restart() {
	f.server.Stop()
	f.server.Start()
}

func (f *stockFollowed) forget(version string) {
	f.server.Compact(f.t.Context(), version)
	f.restart() // it has a cache as old as itself
}

func insecure(url, token string) *rest.Config {
	return &rest.Config{
		Host: url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1,
	}
}

// ourFollowed is planekit's server over a store that survives it.
type ourFollowed struct {
	t       *testing.T
	store   *memstore.Store
	life    *life
	address string
	token   string
}

func beginOurs(t *testing.T) followed {
	f := &ourFollowed{t: t, store: memstore.New(), address: "127.0.0.1:" + stock.FreePort(t)}
	f.start()
	t.Cleanup(func() { f.life.end() })
	return f
}

func (f *ourFollowed) start() {
	f.life = &life{TB: f.t}
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	server := apiservertest.Start(f.life, apiservertest.WithResources(kube.Resources()...), apiservertest.WithAuthenticator(authn.Func(f.authenticate)),
		apiservertest.WithConfig(func(c *apiserver.Config) {
			_ = c.Listener.Close() // its port changes
			c.Store, c.Listener = f.store, listener
		}))
	if f.token == "" {
		f.token = server.Token // each start has another token, and accepts this one
	}
}

func (f *ourFollowed) authenticate(r *http.Request) (*user.Info, bool, error) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+f.token)) != 1 {
		return nil, false, nil
	}
	return &user.Info{Name: "admin", Groups: []string{user.Masters}}, true, nil
}

func (f *ourFollowed) config() *rest.Config { return insecure("https://"+f.address, f.token) }

func (f *ourFollowed) restart() {
	f.life.end()
	f.start()
}

func (f *ourFollowed) forget(version string) {
	compact(f.t, f.store, version)
	f.restart() // it has a cache as old as itself
}

// life is a part of a test that ends on its own.
type life struct {
	testing.TB
	cleanups []func()
}

func (l *life) Cleanup(cleanup func()) { l.cleanups = append(l.cleanups, cleanup) }

func (l *life) end() {
	for _, cleanup := range slices.Backward(l.cleanups) {
		cleanup()
	}
	l.cleanups = nil
}
