package trustbundle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/trustbundle"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func bundle(signer string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "example.com:ca:v1"},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: "anchors"},
	}
}

func request(op admission.Operation, object, old any) *admission.Request {
	return &admission.Request{
		Operation: op, Resource: admission.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1beta1", Resource: "clustertrustbundles"},
		Name: "example.com:ca:v1", User: &user.Info{Name: "ann"}, Object: object, OldObject: old,
	}
}

// attesting grants ann what names one signer, or one domain with an asterisk.
func attesting(signer string) authz.Authorizer {
	return authz.Func(func(_ context.Context, at authz.Attributes) (authz.Decision, string, error) {
		if at.User.Name == "ann" && at.Verb == "attest" && at.Group == "certificates.k8s.io" && at.Resource == "signers" && at.Namespace == "" && at.Name == signer {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
}

func plugin(a authz.Authorizer) *trustbundle.Plugin {
	p, err := trustbundle.New(trustbundle.Config{Authorizer: a})
	if err != nil {
		panic(err)
	}
	return p
}

func Example() {
	p := plugin(attesting("example.com/ca"))
	fmt.Println(p.Validate(context.Background(), request(admission.Create, bundle("example.com/ca"), nil)))
	fmt.Println(p.Validate(context.Background(), request(admission.Create, bundle("example.com/other"), nil)))
	// Output:
	// <nil>
	// clustertrustbundles.certificates.k8s.io "example.com:ca:v1" is forbidden: user not permitted to attest for signerName "example.com/other"
}

func TestValidate(t *testing.T) {
	const refused = `clustertrustbundles.certificates.k8s.io "example.com:ca:v1" is forbidden: user not permitted to attest for signerName "example.com/ca"`
	released := bundle("example.com/ca")
	released.Finalizers = []string{"a"}
	broken := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return authz.Allow, "", errors.New("broken")
	})
	changed := bundle("example.com/ca")
	changed.Spec.TrustBundle = "others"
	for name, c := range map[string]struct {
		grant   string
		request *admission.Request
		want    string
	}{
		"the signer":           {"example.com/ca", request(admission.Create, bundle("example.com/ca"), nil), ""},
		"its domain":           {"example.com/*", request(admission.Create, bundle("example.com/ca"), nil), ""},
		"another domain":       {"com/*", request(admission.Create, bundle("example.com/ca"), nil), refused},
		"every signer":         {"*", request(admission.Create, bundle("example.com/ca"), nil), refused},
		"nothing":              {"", request(admission.Create, bundle("example.com/ca"), nil), refused},
		"no signer":            {"", request(admission.Create, bundle(""), nil), ""},
		"a change":             {"", request(admission.Update, changed, bundle("example.com/ca")), refused},
		"an allowed change":    {"example.com/ca", request(admission.Update, changed, bundle("example.com/ca")), ""},
		"garbage collection":   {"", request(admission.Update, released, bundle("example.com/ca")), ""},
		"finalizers at create": {"", request(admission.Create, released, nil), refused},
		"a delete":             {"", request(admission.Delete, nil, bundle("example.com/ca")), ""},
		"not a bundle": {"", request(admission.Create, &metav1.PartialObjectMetadata{}, nil),
			`clustertrustbundles.certificates.k8s.io "example.com:ca:v1" is forbidden: expected type ClusterTrustBundle, got: *v1.PartialObjectMetadata`},
	} {
		err := plugin(attesting(c.grant)).Validate(t.Context(), c.request)
		if have := fmt.Sprint(err); have != c.want && (err != nil || c.want != "") {
			t.Errorf("%s: have %s, want %s", name, have, c.want)
		}
	}
	if err := plugin(broken).Validate(t.Context(), request(admission.Create, bundle("example.com/ca"), nil)); err == nil || err.Error() != refused {
		t.Errorf("have %v", err)
	}
	other := request(admission.Create, bundle("example.com/ca"), nil)
	other.Resource.Resource = "certificatesigningrequests"
	if err := plugin(attesting("")).Validate(t.Context(), other); err != nil {
		t.Error(err)
	}
	if _, err := trustbundle.New(trustbundle.Config{}); err == nil {
		t.Error("no authorizer is needed")
	}
}
