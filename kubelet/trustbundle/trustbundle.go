// Package trustbundle returns the trust anchors that ClusterTrustBundles have for the volumes of pods.
//
//	anchors, err := trustbundle.New(bundles) // an informer
//	pem, err := anchors.ByName("example.com:ca:v1", false)
//	pem, err = anchors.BySigner("example.com/ca", &metav1.LabelSelector{}, false)
//
// The anchors are read from a local cache, which may be old. Before the cache has synced, each answer
// is an error: a bundle that is missing there may exist. Anchors that occur several times are returned
// once, as PEM blocks without headers and without the text between them.
//
// The order of the anchors is the same for the life of an [Anchors], and another after a restart, so
// that no program comes to depend on it.
package trustbundle

import (
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/localcache"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Bundles is a cache of all ClusterTrustBundles, by name. An informer is one.
type Bundles interface {
	localcache.Reader[*certificatesv1beta1.ClusterTrustBundle]
	// Synced returns a channel that is closed once the cache has the first list.
	Synced() <-chan struct{}
}

// maxSelector bounds the text of a label selector, in bytes.
const maxSelector = 100 << 10

// Anchors finds trust anchors. Its methods may be called concurrently.
type Anchors struct {
	bundles Bundles
	seed    maphash.Seed
}

// New returns the anchors of a cache, which must not be nil.
func New(bundles Bundles) (*Anchors, error) {
	if bundles == nil {
		return nil, errors.New("trustbundle: there is no cache of bundles")
	}
	return &Anchors{bundles: bundles, seed: maphash.MakeSeed()}, nil
}

// ByName returns the anchors of the bundle with a name. A bundle that does not exist has none if
// optional, and otherwise is an error.
func (a *Anchors) ByName(name string, optional bool) ([]byte, error) {
	if err := a.synced(); err != nil {
		return nil, err
	}
	bundle, ok := a.bundles.Get(name)
	switch {
	case ok:
		return a.encode(bundle), nil
	case optional:
		return nil, nil
	}
	return nil, fmt.Errorf("while getting ClusterTrustBundle: %w",
		apierrors.NewNotFound(certificatesv1beta1.Resource("clustertrustbundle"), name))
}

// BySigner returns the anchors of all bundles of a signer with labels that match. A nil selector matches no
// bundle, and an empty one all. If no bundle matches, there are no anchors if optional, and otherwise
// it is an error.
func (a *Anchors) BySigner(signer string, selector *metav1.LabelSelector, optional bool) ([]byte, error) {
	if err := a.synced(); err != nil {
		return nil, err
	}
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("while parsing label selector: %w", err)
	}
	if n := len(matches.String()); n > maxSelector {
		return nil, fmt.Errorf("label selector length (%d) is larger than %d", n, maxSelector)
	}
	var found []*certificatesv1beta1.ClusterTrustBundle
	for bundle := range a.bundles.All() {
		if bundle.Spec.SignerName == signer && matches.Matches(labels.Set(bundle.Labels)) {
			found = append(found, bundle)
		}
	}
	if len(found) == 0 && !optional {
		return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}
	return a.encode(found...), nil
}

func (a *Anchors) synced() error {
	select {
	case <-a.bundles.Synced():
		return nil
	default:
		return errors.New("ClusterTrustBundle informer has not yet synced")
	}
}

// encode returns each anchor of bundles once.
func (a *Anchors) encode(bundles ...*certificatesv1beta1.ClusterTrustBundle) []byte {
	places := map[string]uint64{}
	for _, bundle := range bundles {
		for block, rest := pem.Decode([]byte(bundle.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			places[string(block.Bytes)] = maphash.Bytes(a.seed, block.Bytes)
		}
	}
	order := slices.SortedFunc(maps.Keys(places), func(x, y string) int {
		return cmp.Or(cmp.Compare(places[x], places[y]), strings.Compare(x, y))
	})
	var out []byte
	for _, anchor := range order {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(anchor)})...)
	}
	return out
}
