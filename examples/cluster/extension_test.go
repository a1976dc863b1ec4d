package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kinds/apiregistration"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// extension is another API server, with a type of its own, that believes the
// cluster's front proxy as stock ones do: by the config map.
type extension struct {
	port  int32
	ca    []byte
	roots *x509.CertPool
	stop  func()

	mu   sync.Mutex
	seen []string // users it has decided about
}

// startExtension serves as service widgets in namespace default. It lets
// administrators do everything and jane read.
func startExtension(t *testing.T, api *client.Client) *extension {
	t.Helper()
	published, err := typed.ConfigMaps(api).Get(t.Context(), "kube-system", "extension-apiserver-authentication")
	if err != nil {
		t.Fatal(err)
	}
	proxies := requestheader.Config{Roots: x509.NewCertPool()}
	if !proxies.Roots.AppendCertsFromPEM([]byte(published.Data["requestheader-client-ca-file"])) {
		t.Fatalf("no authority in %v", published.Data)
	}
	for key, to := range map[string]*[]string{
		"requestheader-allowed-names": &proxies.AllowedNames, "requestheader-username-headers": &proxies.UserHeaders,
		"requestheader-uid-headers": &proxies.UIDHeaders, "requestheader-group-headers": &proxies.GroupHeaders,
		"requestheader-extra-headers-prefix": &proxies.ExtraPrefixes,
	} {
		if err := json.Unmarshal([]byte(published.Data[key]), to); err != nil || len(*to) != 1 {
			t.Fatalf("%s of the ConfigMap is %q (%v), want a JSON list of one string", key, published.Data[key], err)
		}
	}
	front, err := requestheader.New(proxies)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving("widgets", "widgets.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &extension{port: int32(listener.Addr().(*net.TCPAddr).Port), ca: authority.CertificatePEM, roots: authority.Pool()}
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(), Listener: listener, Authenticator: authn.Chain{front, anonymous.Authenticator{}}, Authorizer: e,
		TLS: &tls.Config{Certificates: []tls.Certificate{serving.TLS()}, ClientAuth: tls.RequestClientCert},
		Resources: []apiserver.Resource{{
			Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", Namespaced: true,
			New: func() runtime.Object { return &corev1.ConfigMap{} }, NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(e.stop)
	return e
}

func (e *extension) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, a.User.Name)
	if a.User.In(user.Masters) || a.User.Name == "jane" && slices.Contains([]string{"get", "list", "watch"}, a.Verb) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

func (e *extension) saw(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.seen, name)
}

// register has the cluster pass the group on to e.
func (e *extension) register(t *testing.T, api *client.Client) {
	t.Helper()
	_, err := typed.Services(api).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "widgets"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = typed.APIServices(api).Create(t.Context(), &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistration.APIServiceSpec{
			Group: "example.com", Version: "v1", CABundle: e.ca, GroupPriorityMinimum: 1000, VersionPriority: 15,
			Service: &apiregistration.ServiceReference{Namespace: "default", Name: "widgets", Port: &e.port},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
