package certificates_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube/certificates"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func bundle(name, signer, anchors string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: anchors},
	}
}

func anchor(t testing.TB) string {
	t.Helper()
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	return string(authority.CertificatePEM)
}

// TestLengths: what is too long is refused before it is read.
func TestLengths(t *testing.T) {
	long := strings.Repeat("a", 64)
	domain := strings.TrimSuffix(strings.Repeat(long[:63]+".", 5), ".")
	for _, c := range []struct{ signer, anchors, want string }{
		{"", strings.Repeat("a", 1<<20) + "a", "spec.trustBundle: Too long: may not be more than 1048576 bytes"},
		{long + ".b/c", anchor(t), `spec.signerName: Invalid value: "` + long + `.b": validating label "` + long + `": must be no more than 63 characters`},
		{domain + "/c", anchor(t), "spec.signerName: Too long: may not be more than 253 bytes"},
		{"a.b/" + strings.TrimSuffix(strings.Repeat(long[:63]+".", 9), "."), anchor(t), "spec.signerName: Too long: may not be more than 571 bytes"},
	} {
		prefix := ""
		if c.signer != "" {
			prefix = strings.ReplaceAll(c.signer, "/", ":") + ":"
		}
		errs := certificates.ClusterTrustBundles().Strategy.Validate(t.Context(), bundle(prefix+"a", c.signer, c.anchors))
		if len(errs) != 1 || errs[0].Error() != c.want {
			t.Errorf("have %v, want %s", errs, c.want)
		}
	}
}

// TestUnchangedAnchors: a change of labels does not read the anchors again, which an earlier version may have
// accepted.
func TestUnchangedAnchors(t *testing.T) {
	old := bundle("a", "", "anchors of an earlier version")
	changed := old.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	if errs := certificates.ClusterTrustBundles().Strategy.ValidateUpdate(t.Context(), changed, old); len(errs) != 0 {
		t.Error(errs)
	}
}

// TestServed takes bundles through a real server: typed client, field selector, table, discovery and
// OpenAPI.
func TestServed(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(certificates.Resources()...))
	api, err := client.New(client.Config{Server: s.URL, Transport: s.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	bundles := typed.ClusterTrustBundles(api)
	for _, b := range []*certificatesv1beta1.ClusterTrustBundle{
		bundle("example.com:ca:v1", "example.com/ca", anchor(t)), bundle("example.com:other:v1", "example.com/other", anchor(t)), bundle("plain", "", anchor(t)),
	} {
		made, err := bundles.Create(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if made.Spec != b.Spec {
			t.Errorf("have %+v", made.Spec)
		}
	}
	generated := bundle("", "example.com/ca", anchor(t))
	generated.GenerateName = "example.com:ca:v-"
	if made, err := bundles.Create(t.Context(), generated); err != nil || !strings.HasPrefix(made.Name, "example.com:ca:v-") {
		t.Errorf("Create with the generateName %s = %v, %v, want a name that begins so", generated.GenerateName, made, err)
	}
	_, err = bundles.Create(t.Context(), bundle("v1", "example.com/ca", anchor(t)))
	if want := `ClusterTrustBundle.certificates.k8s.io "v1" is invalid: metadata.name: Invalid value: "v1": ` +
		`ClusterTrustBundle for signerName example.com/ca must be named with prefix example.com:ca:`; !apierrors.IsInvalid(err) || err.Error() != want {
		t.Errorf("have %v", err)
	}
	for selector, want := range map[string]int{"spec.signerName=example.com/ca": 2, "spec.signerName=": 1, "spec.signerName!=": 3, "": 4} {
		list, _, err := bundles.List(t.Context(), "", metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list) != want {
			t.Errorf("%q: %d objects, %v", selector, len(list), err)
		}
	}

	var table metav1.Table
	get(t, s, "/apis/certificates.k8s.io/v1beta1/clustertrustbundles?fieldSelector="+url.QueryEscape("metadata.name=plain"), "application/json;as=Table;v=v1;g=meta.k8s.io", &table)
	if len(table.Rows) != 1 || fmt.Sprint(table.Rows[0].Cells) != "[plain <none>]" || table.ColumnDefinitions[1].Name != "SignerName" {
		t.Errorf("table %+v", table)
	}
	var resources metav1.APIResourceList
	get(t, s, "/apis/certificates.k8s.io/v1beta1", "application/json", &resources)
	if len(resources.APIResources) != 1 || resources.APIResources[0].Name != "clustertrustbundles" || resources.APIResources[0].Namespaced ||
		resources.APIResources[0].SingularName != "clustertrustbundle" || resources.APIResources[0].Kind != "ClusterTrustBundle" {
		t.Errorf("discovery %+v", resources)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Required []string `json:"required"`
			} `json:"schemas"`
		} `json:"components"`
	}
	get(t, s, "/openapi/v3/apis/certificates.k8s.io/v1beta1", "application/json", &document)
	if spec := document.Components.Schemas["io.k8s.api.certificates.v1beta1.ClusterTrustBundleSpec"]; len(spec.Required) != 1 || spec.Required[0] != "trustBundle" {
		t.Errorf("schema %+v", spec)
	}
}

// get decodes the answer of the server for a path.
func get(t *testing.T, s *apiservertest.Server, path, accept string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %d %s, %v, want 200", path, response.StatusCode, body, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatal(err)
	}
}

// FuzzAnchors compares what is accepted with what PEM says about it.
func FuzzAnchors(f *testing.F) {
	data, err := os.ReadFile("testdata/validation/clustertrustbundles.yaml")
	if err != nil {
		f.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\n# ")
	var valid certificatesv1beta1.ClusterTrustBundle
	if err := yaml.Unmarshal([]byte(first), &valid); err != nil {
		f.Fatal(err)
	}
	f.Add(valid.Spec.TrustBundle)
	f.Add(valid.Spec.TrustBundle + valid.Spec.TrustBundle)
	f.Add("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	f.Add("-----BEGIN CERTIFICATE-----\nA: b\n\n-----END CERTIFICATE-----\n")
	validate := certificates.ClusterTrustBundles().Strategy.Validate
	f.Fuzz(func(t *testing.T, anchors string) {
		if len(validate(t.Context(), bundle("a", "", anchors))) > 0 {
			return
		}
		seen := map[string]bool{}
		for block, rest := pem.Decode([]byte(anchors)); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" || len(block.Headers) > 0 || seen[string(block.Bytes)] {
				t.Fatalf("%q is accepted", anchors)
			}
			seen[string(block.Bytes)] = true
		}
		if len(seen) == 0 {
			t.Fatalf("%q is accepted without an anchor", anchors)
		}
	})
}
