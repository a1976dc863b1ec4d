package podspec

import (
	"math"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The life of a projected token
// (https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken).
const (
	MinTokenSeconds = 10 * 60
	MaxTokenSeconds = math.MaxUint32 + 1
)

// projection checks one source of a projected volume. paths are the files there
// are so far; no two sources may write one.
type projection struct {
	ps    *check.Problems
	paths map[string]bool
}

func checkProjected(ps *check.Problems, p *field.Path, v *corev1.VolumeSource) {
	ps.Mode(p.Child("defaultMode"), v.Projected.DefaultMode)
	c := projection{ps: ps, paths: map[string]bool{}}
	for i := range v.Projected.Sources {
		c.check(p, p.Child("sources").Index(i), &v.Projected.Sources[i])
	}
}

// check checks the source at path at. Errors about files are at p, as in Kubernetes.
func (c projection) check(p, at *field.Path, s *corev1.VolumeProjection) {
	n := 0
	if s.Secret != nil {
		n++
		c.ps.Required(at.Child("secret", "name"), s.Secret.Name)
		c.items(p, at.Child("secret", "items"), s.Secret.Name, s.Secret.Items)
	}
	if s.ConfigMap != nil {
		n++
		c.ps.Required(at.Child("configMap", "name"), s.ConfigMap.Name)
		c.items(p, at.Child("configMap", "items"), s.ConfigMap.Name, s.ConfigMap.Items)
	}
	if s.DownwardAPI != nil {
		n++
		for i := range s.DownwardAPI.Items {
			item := &s.DownwardAPI.Items[i]
			checkDownwardFile(c.ps, at.Child("downwardAPI"), item)
			c.file(p, item.Path, item.Path)
		}
	}
	if s.ServiceAccountToken != nil {
		n++
		c.token(p, at.Child("serviceAccountToken"), s.ServiceAccountToken)
	}
	if s.ClusterTrustBundle != nil {
		n++
		c.bundle(p, at.Child("clusterTrustBundle"), s.ClusterTrustBundle)
	}
	if s.PodCertificate != nil {
		n++
		c.certificate(p, at.Child("podCertificate"), s.PodCertificate)
	}
	c.ps.Allowed(n <= 1, at, "may not specify more than 1 volume type per source")
}

func (c projection) items(p, at *field.Path, name string, items []corev1.KeyToPath) {
	checkItems(c.ps, at, items)
	for _, item := range items {
		c.file(p, item.Path, name)
	}
}

// file records a path and adds an error for a duplicate; value names the source of the file.
func (c projection) file(p *field.Path, path, value string) {
	if path == "" {
		return
	}
	c.ps.Valid(!c.paths[path], p, value, "conflicting duplicate paths")
	c.paths[path] = true
}

func (c projection) token(p, at *field.Path, t *corev1.ServiceAccountTokenProjection) {
	if s := t.ExpirationSeconds; s != nil {
		c.ps.Valid(*s >= MinTokenSeconds,
			at.Child("expirationSeconds"), *s, "may not specify a duration less than 10 minutes")
		c.ps.Valid(*s <= MaxTokenSeconds,
			at.Child("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds")
	}
	if c.ps.Required(p.Child("path"), t.Path) {
		checkUnreserved(c.ps, p.Child("path"), t.Path)
	}
}

func (c projection) bundle(p, at *field.Path, b *corev1.ClusterTrustBundleProjection) {
	switch name, signer := optional.Deref(b.Name), optional.Deref(b.SignerName); {
	case name != "" && signer != "":
		c.ps.Add(field.Invalid(at, b, "only one of name and signerName may be used"))
	case name == "" && signer == "":
		c.ps.Add(field.Required(at, "either name or signerName must be specified"))
	case name != "" && b.LabelSelector != nil:
		c.ps.Add(field.Invalid(at.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
	case signer != "":
		c.ps.Selector(at.Child("labelSelector"), b.LabelSelector)
	}
	if c.ps.Required(at.Child("path"), b.Path) {
		checkUnreserved(c.ps, at.Child("path"), b.Path)
	}
	c.file(p, b.Path, b.Path)
}

var certificateKeys = []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}

func (c projection) certificate(p, at *field.Path, cert *corev1.PodCertificateProjection) {
	check.OneOf(c.ps, at.Child("keyType"), cert.KeyType, certificateKeys...)
	n := 0
	for _, f := range []struct{ path, value string }{
		{"credentialBundlePath", cert.CredentialBundlePath},
		{"keyPath", cert.KeyPath},
		{"certificateChainPath", cert.CertificateChainPath},
	} {
		if f.value == "" {
			continue
		}
		n++
		checkUnreserved(c.ps, at.Child(f.path), f.value)
		c.file(p, f.value, f.value)
	}
	c.ps.Present(n > 0, at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
}
