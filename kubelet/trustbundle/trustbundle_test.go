package trustbundle_test

import (
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet/trustbundle"
	"github.com/planekit/planekit/localcache"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type cache = localcache.Map[*certificatesv1beta1.ClusterTrustBundle]

// block returns a PEM block; what is in it does not matter to the package.
func block(content string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))
}

func bundle(name, signer, label string, anchors ...string) *certificatesv1beta1.ClusterTrustBundle {
	b := &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"version": label}}}
	b.Spec.SignerName = signer
	for _, a := range anchors {
		b.Spec.TrustBundle += "text between\n" + block(a)
	}
	return b
}

func open(bundles ...*certificatesv1beta1.ClusterTrustBundle) (*trustbundle.Anchors, *cache) {
	all := localcache.NewUnsynced(localcache.KeyOf[*certificatesv1beta1.ClusterTrustBundle])
	for _, b := range bundles {
		all.Put(b)
	}
	anchors, err := trustbundle.New(all)
	if err != nil {
		panic(err)
	}
	return anchors, all
}

// contents returns what is in the blocks, sorted.
func contents(t *testing.T, anchors []byte) string {
	t.Helper()
	var found []string
	for b, rest := pem.Decode(anchors); b != nil; b, rest = pem.Decode(rest) {
		found = append(found, string(b.Bytes))
	}
	slices.Sort(found)
	var again []byte
	for b, rest := pem.Decode(anchors); b != nil; b, rest = pem.Decode(rest) {
		again = append(again, pem.EncodeToMemory(b)...)
	}
	if string(again) != string(anchors) {
		t.Errorf("there is more than blocks in %q", anchors)
	}
	return strings.Join(found, " ")
}

func Example() {
	anchors, all := open(bundle("a", "", "", "first"))
	all.Sync()
	found, err := anchors.ByName("a", false)
	fmt.Printf("%s%v\n", found, err)
	_, err = anchors.ByName("b", false)
	fmt.Println(err)
	// Output:
	// -----BEGIN CERTIFICATE-----
	// Zmlyc3Q=
	// -----END CERTIFICATE-----
	// <nil>
	// while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "b" not found
}

func TestBySigner(t *testing.T) {
	anchors, all := open(
		bundle("x:1", "x", "1", "a", "b"), bundle("x:2", "x", "2", "b", "c"), bundle("y:1", "y", "1", "d"), bundle("plain", "", "1", "e"))
	all.Sync()
	one, every := &metav1.LabelSelector{MatchLabels: map[string]string{"version": "1"}}, &metav1.LabelSelector{}
	const none = "combination of signerName and labelSelector matched zero ClusterTrustBundles"
	for _, c := range []struct {
		signer    string
		selector  *metav1.LabelSelector
		optional  bool
		want, err string
	}{
		{"x", one, false, "a b", ""},
		{"x", every, false, "a b c", ""},
		{"x", nil, false, "", none},
		{"x", nil, true, "", ""},
		{"z", every, false, "", none},
		{"z", every, true, "", ""},
		{"x", &metav1.LabelSelector{MatchLabels: map[string]string{"version": "3"}}, false, "", none},
		{"x", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "near"}}}, true, "",
			`while parsing label selector: "near" is not a valid label selector operator`},
	} {
		have, err := anchors.BySigner(c.signer, c.selector, c.optional)
		if text := fmt.Sprint(err); c.err != "" && text != c.err || c.err == "" && err != nil {
			t.Errorf("%s %v: have %v, want %s", c.signer, c.selector, err, c.err)
		}
		if found := contents(t, have); found != c.want {
			t.Errorf("%s %v: have %q, want %q", c.signer, c.selector, found, c.want)
		}
	}
	long := &metav1.LabelSelector{}
	for i := range 2000 {
		long.MatchExpressions = append(long.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: fmt.Sprintf("%s%d", strings.Repeat("a", 55), i), Operator: metav1.LabelSelectorOpExists})
	}
	if _, err := anchors.BySigner("x", long, true); err == nil || !strings.Contains(err.Error(), "is larger than 102400") {
		t.Errorf("have %v", err)
	}
}

// TestSynced: before the first list, a bundle that is missing may exist, so that also an optional one
// is an error.
func TestSynced(t *testing.T) {
	anchors, all := open(bundle("a", "x", "1", "a"))
	for _, err := range []error{
		second(anchors.ByName("a", true)), second(anchors.ByName("b", true)), second(anchors.BySigner("x", &metav1.LabelSelector{}, true)),
	} {
		if err == nil || err.Error() != "ClusterTrustBundle informer has not yet synced" {
			t.Errorf("have %v", err)
		}
	}
	all.Sync()
	if found, err := anchors.ByName("b", true); err != nil || len(found) > 0 {
		t.Errorf("have %q, %v", found, err)
	}
	if _, err := trustbundle.New(nil); err == nil {
		t.Error("no cache is needed")
	}
}

func second(_ []byte, err error) error { return err }

// TestOrder: the order is the same for the life of the anchors, and differs between lives.
func TestOrder(t *testing.T) {
	many := bundle("a", "", "")
	for i := range 50 {
		many.Spec.TrustBundle += block(fmt.Sprint(i))
	}
	orders := map[string]bool{}
	for range 3 {
		anchors, all := open(many)
		all.Sync()
		first, err := anchors.ByName("a", false)
		again, errAgain := anchors.ByName("a", false)
		if err != nil || errAgain != nil || string(first) != string(again) {
			t.Fatalf("the order changes: %v %v", err, errAgain)
		}
		orders[string(first)] = true
	}
	if len(orders) != 3 {
		t.Errorf("%d orders in 3 lives", len(orders))
	}
}

// FuzzAnchors: whatever a bundle has, the result is blocks without duplicates.
func FuzzAnchors(f *testing.F) {
	f.Add(block("a") + "x" + block("a") + block("b"))
	f.Add("-----BEGIN CERTIFICATE-----\nA: b\n\nAAAA\n-----END CERTIFICATE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		b := bundle("a", "", "")
		b.Spec.TrustBundle = text
		anchors, all := open(b)
		all.Sync()
		found, err := anchors.ByName("a", false)
		if err != nil {
			t.Fatal(err)
		}
		contents(t, found)
		seen := map[string]bool{}
		for p, rest := pem.Decode(found); p != nil; p, rest = pem.Decode(rest) {
			if seen[string(p.Bytes)] || len(p.Headers) > 0 {
				t.Fatalf("ByName(a) = %q, want each certificate once, and no headers", found)
			}
			seen[string(p.Bytes)] = true
		}
	})
}
