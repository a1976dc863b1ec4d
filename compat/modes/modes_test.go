package modes

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

var decisions = map[authz.Decision]authorizer.Decision{
	authz.Allow: authorizer.DecisionAllow, authz.Deny: authorizer.DecisionDeny, authz.NoOpinion: authorizer.DecisionNoOpinion,
}

// TestSameOrder asks random chains. It leaves out an Allow with an error, which planekit's contract
// excludes.
func TestSameOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	counts := map[authz.Decision]int{}
	for range 20_000 {
		var ours authz.Chain
		var stock []authorizer.Authorizer
		for range r.IntN(6) {
			switch r.IntN(8) {
			case 0:
				ours, stock = append(ours, authz.AlwaysDeny()), append(stock, authorizerfactory.NewAlwaysDenyAuthorizer())
				continue
			case 1:
				ours, stock = append(ours, authz.InsecureAlwaysAllow()), append(stock, authorizerfactory.NewAlwaysAllowAuthorizer())
				continue
			}
			d := []authz.Decision{authz.NoOpinion, authz.NoOpinion, authz.NoOpinion, authz.Allow, authz.Deny}[r.IntN(5)]
			reason := []string{"", "because", "so"}[r.IntN(3)]
			var err error
			if d != authz.Allow && r.IntN(3) == 0 {
				err = errors.New([]string{"down", "broken"}[r.IntN(2)])
			}
			ours = append(ours, authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return d, reason, err }))
			stock = append(stock, authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return decisions[d], reason, err
			}))
		}
		got, reason, err := ours.Authorize(t.Context(), authz.Attributes{})
		want, wantReason, wantErr := union.New(stock...).Authorize(t.Context(), authorizer.AttributesRecord{})
		if decisions[got] != want || reason != wantReason || (err != nil) != (wantErr != nil) {
			t.Fatalf("seed %d: %v %q %v, stock %v %q %v", seed, got, reason, err, want, wantReason, wantErr)
		}
		counts[got]++
	}
	if len(counts) != 3 {
		t.Errorf("only %v came out", counts)
	}
}

// TestSameWords compares the answers that an unauthorized client receives.
func TestSameWords(t *testing.T) {
	var asked authz.Attributes
	refuse := authz.AlwaysDeny()
	pods := apiserver.Resource{
		Version: "v1", Kind: "Pod", Plural: "pods", Namespaced: true, New: func() runtime.Object { return &corev1.Pod{} }, NewList: func() runtime.Object { return &corev1.PodList{} },
	}
	server := apiservertest.Start(t, apiservertest.WithResources(pods), apiservertest.WithAuthorizer(authz.Chain{
		authz.Func(func(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
			asked = a
			return refuse.Authorize(ctx, a)
		}),
	}))
	for _, reasons := range []authz.Authorizer{
		authz.AlwaysDeny(), authz.Chain{}, authz.Chain{authz.AlwaysDeny(), authz.AlwaysDeny()},
		authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
			return authz.Deny, "because", nil
		}),
	} {
		refuse = reasons
		for _, name := range []string{"jane", `jane "j" <doe> & co`, "system:serviceaccount:n:a"} {
			for _, request := range []string{
				"GET /api/v1/namespaces/n/pods", "GET /api/v1/namespaces/n/pods/web", "GET /api/v1/pods", "POST /api/v1/namespaces/n/pods",
				"DELETE /api/v1/namespaces/n/pods", "GET /api/v1/namespaces/n/pods/web/log", "PUT /api/v1/namespaces/n/pods/web/status",
				"GET /apis/apps/v1/namespaces/n/deployments/web", "GET /api/v1/nodes", "GET /api/v1/namespaces/n", "GET /metrics", "POST /a/b",
				"GET /api/v1/namespaces/n/pods?watch=true",
			} {
				method, path, _ := strings.Cut(request, " ")
				got, code := ask(t, server.As(name), method, path)
				_, reason, _ := refuse.Authorize(t.Context(), asked)
				if want := stockWords(t, asked, reason, method, path); got != want || code != http.StatusForbidden {
					t.Errorf("%s by %s: %d\n%s\nstock:\n%s", request, name, code, got, want)
				}
			}
		}
	}
}

func ask(t *testing.T, client *http.Client, method, path string) (string, int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://memory"+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return message(t, string(body)), answer.StatusCode
}

// message returns the Status without differences that encoders may make.
func message(t *testing.T, body string) string {
	t.Helper()
	var status metav1.Status
	if err := runtime.DecodeInto(codecs.UniversalDeserializer(), []byte(body), &status); err != nil {
		t.Fatalf("DecodeInto a Status: %v in %s", err, body)
	}
	return status.String()
}

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	scheme.AddUnversionedTypes(metav1.Unversioned, &metav1.Status{})
	return serializer.NewCodecFactory(scheme)
}()

func stockWords(t *testing.T, a authz.Attributes, reason, method, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	var u stockuser.Info = &stockuser.DefaultInfo{Name: a.User.Name, Groups: []string{user.Authenticated}}
	responsewriters.Forbidden(authorizer.AttributesRecord{
		User: u, Verb: a.Verb, APIGroup: a.Group, APIVersion: a.Version, Resource: a.Resource, Subresource: a.Subresource,
		Namespace: a.Namespace, Name: a.Name, Path: a.Path, ResourceRequest: a.Resource != "",
	}, w, httptest.NewRequest(method, path, nil), reason, codecs)
	if w.Code != http.StatusForbidden {
		t.Fatal(w.Code)
	}
	return message(t, w.Body.String())
}
