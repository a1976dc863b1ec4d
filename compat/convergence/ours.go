package convergence

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/reconcile/controllers/account"
	"github.com/planekit/planekit/reconcile/controllers/autoscale"
)

// OurServer starts our control plane without controllers and scheduler, and returns the path of its
// administrator's kubeconfig. Its admission plugins are those that a stock kube-apiserver runs by
// default, as far as they change objects.
func OurServer(t testing.TB) string {
	t.Helper()
	return planetest.Start(t, planetest.With(func(c *plane.Config) {
		c.NoControllers, c.NoScheduler = true, true
		customresources.Enable(c)
		// The events about fields without effect would be the only difference.
		c.Admission.Unsupported = []unsupported.Row{}
	})).KubeconfigFile()
}

// OurControllers runs our controllers against the server of a kubeconfig until the test ends. All of
// them act as the user of the kubeconfig.
func OurControllers(t testing.TB, path string) {
	t.Helper()
	api, err := kubeconfig.Connect(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	log := funcr.New(func(prefix, args string) { t.Log(prefix, args) }, funcr.Options{})
	all, err := caches.New(api, log)
	if err != nil {
		t.Fatal(err)
	}
	set, err := controllerset.New(controllerset.Config{
		ClientFor: func(*user.Info, string) (*client.Client, error) { return api, nil },
		Caches:    all, RootCA: []byte(Authority), SignToken: signer(t),
		Options: controllerset.Options{
			Choose: StockControllers, Tuning: controllerset.Tuning{Autoscaling: autoscale.Tuning{Period: AutoscalingPeriod}},
		},
		Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New()
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	all.Start(s)
	set.Start(s)
}

// signer signs the tokens that are kept in secrets. No scenario uses a token to authenticate.
func signer(t testing.TB) account.TokenSigner {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := serviceaccount.NewSigner(serviceaccount.LegacyIssuer, key)
	if err != nil {
		t.Fatal(err)
	}
	return func(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
		return signer.SignLegacy(account.Namespace, serviceaccount.Ref{Name: account.Name, UID: string(account.UID)}, secret.Name)
	}
}
