package pluginset_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/pluginset"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestChecksStay checks that the check against escalation and the warnings remain with all plugins
// disabled.
func TestChecksStay(t *testing.T) {
	config, err := newConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.Enable = []string{}
	config.Disable = []string{
		"NamespaceLifecycle", "ServiceAccount", "LimitRanger", "NodeRestriction", "Priority", "DefaultTolerationSeconds",
		"RuntimeClass", "PodSecurity", "PodResizeValidator", "CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction", "DefaultStorageClass", "DefaultIngressClass",
		"StorageObjectInUseProtection", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota",
	}
	set, err := pluginset.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Mutators) != 0 || len(set.Validators) != 2 {
		t.Errorf("%d mutators and %d validators remain", len(set.Mutators), len(set.Validators))
	}
	jane := &user.Info{Name: "jane"}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}},
	}
	err = set.Validate(t.Context(), &admission.Request{
		Operation: admission.Create, User: jane, Namespace: "default", Name: "all", Object: role,
		Resource: admission.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "roles"},
	})
	if err == nil || !strings.Contains(err.Error(), "attempting to grant RBAC permissions not currently held") {
		t.Errorf("jane grants what she does not have: %v", err)
	}
	var warnings []string
	err = set.Validate(t.Context(), &admission.Request{
		Operation: admission.Create, User: jane, Namespace: "default", Name: "web",
		Object:   &corev1.Service{Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}}},
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "services"},
		Warn:     func(text string) { warnings = append(warnings, text) },
	})
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "spec.externalIPs") {
		t.Errorf("the warnings are %q: %v", warnings, err)
	}
}

// TestStart checks that Start returns when the webhooks of both kinds are known, and not before.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := &user.Info{Name: "root", Groups: []string{user.Masters}}
		server, err := apiserver.New(apiserver.Config{
			Store: memstore.New(), Resources: kube.Resources(), Authorizer: authz.Superusers(user.Masters),
			Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return root, true, nil }),
		})
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan struct{})
		api, err := client.New(client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "validatingwebhookconfigurations") {
				select {
				case <-answer:
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
			return server.Transport(root).RoundTrip(r)
		})))
		if err != nil {
			t.Fatal(err)
		}
		all, err := caches.New(api, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		access, err := authorizers.New(authorizers.Config{Caches: all})
		if err != nil {
			t.Fatal(err)
		}
		set, err := pluginset.New(pluginset.Config{Client: api, Caches: all, Authorizers: access})
		if err != nil {
			t.Fatal(err)
		}
		parts := stack.New()
		parts.Start("API server", server.Run)
		started := make(chan error, 1)
		go func() { started <- set.Start(t.Context(), parts) }()
		synctest.Wait()
		select {
		case err := <-started:
			t.Errorf("Start has returned before the webhooks are known: %v", err)
			started <- err
		default:
		}
		close(answer)
		if err := <-started; err != nil {
			t.Error(err)
		}
		if err := parts.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestStartEnds checks that Start returns when its context is done.
func TestStartEnds(t *testing.T) {
	config, err := newConfig() // its server never answers
	if err != nil {
		t.Fatal(err)
	}
	set, err := pluginset.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	parts := stack.New()
	if err := set.Start(ctx, parts); err == nil {
		t.Error("Start knows webhooks of a server that never answers")
	}
	if err := parts.Stop(); err != nil {
		t.Error(err)
	}
}
