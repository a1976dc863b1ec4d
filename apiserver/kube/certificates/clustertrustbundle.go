package certificates

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/kinds"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type bundle = certificatesv1beta1.ClusterTrustBundle

// ClusterTrustBundles returns the resource of the kind ClusterTrustBundle.
func ClusterTrustBundles() apiserver.Resource {
	r := apiserver.For(kinds.ClusterTrustBundles, apiserver.Resource{
		Conditional: true,
		Strategy: define.Strategy[*bundle]{
			Validate: func(b *bundle) field.ErrorList {
				errs := checkNames(b)
				return append(errs, checkAnchors(field.NewPath("spec", "trustBundle"), b.Spec.TrustBundle)...)
			},
			ValidateUpdate: validateBundleUpdate,
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("SignerName", certificatesv1beta1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"],
				func(b *bundle) string { return cmp.Or(b.Spec.SignerName, column.None) }),
		},
		Fields: define.Fields[*bundle]{
			"spec.signerName": func(b *bundle) string { return b.Spec.SignerName },
		}.Erase(),
	})
	// Which names are valid depends on the signer: checkNames checks them.
	r.Strategy.ValidateName = func(string, bool) []string { return nil }
	return r
}

// validateBundleUpdate does not parse anchors that stay as they are, so that an object that an
// earlier version accepted can still change otherwise.
func validateBundleUpdate(b, old *bundle) field.ErrorList {
	var ps check.Problems
	ps.All(checkNames(b))
	if b.Spec.TrustBundle != old.Spec.TrustBundle {
		ps.All(checkAnchors(field.NewPath("spec", "trustBundle"), b.Spec.TrustBundle))
	}
	ps.Immutable(field.NewPath("spec", "signerName"), b.Spec.SignerName, old.Spec.SignerName)
	return ps.List
}

// checkNames checks the names of the object and of its signer.
func checkNames(b *bundle) field.ErrorList {
	var ps check.Problems
	signer, metadata := b.Spec.SignerName, field.NewPath("metadata")
	if b.GenerateName != "" {
		ps.Each(metadata.Child("generateName"), b.GenerateName, bundleNameProblems(signer, b.GenerateName, true))
	}
	if b.Name != "" {
		ps.Each(metadata.Child("name"), b.Name, bundleNameProblems(signer, b.Name, false))
	}
	if signer != "" {
		checkSigner(&ps, field.NewPath("spec", "signerName"), signer)
	}
	return ps.List
}

// bundleNameProblems returns what is wrong with the name of a bundle, or with the beginning of a
// generated one.
func bundleNameProblems(signer, name string, prefix bool) []string {
	rest := name
	if signer != "" {
		wanted := strings.ReplaceAll(signer, "/", ":") + ":"
		var ok bool
		if rest, ok = strings.CutPrefix(name, wanted); !ok {
			return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, wanted)}
		}
	} else if strings.Contains(name, ":") {
		return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
	}
	return apivalidation.NameIsDNSSubdomain(rest, prefix)
}

// The longest signer name: a domain, a slash, and a path of a label, a dot and a subdomain.
const longestSigner = validation.DNS1123SubdomainMaxLength + 1 +
	validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 1

// checkSigner requires a name such as example.com/signer-name
// (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#signers).
func checkSigner(ps *check.Problems, p *field.Path, signer string) {
	domain, path, ok := strings.Cut(signer, "/")
	if !ok || strings.Contains(path, "/") {
		ps.Add(field.Invalid(p, signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'"))
		return
	}
	ps.AtMostBytes(p, len(domain), validation.DNS1123SubdomainMaxLength)
	checkSignerPart(ps, p, domain, validation.IsDNS1123Label)
	ps.Valid(strings.Contains(domain, "."), p, domain, "should be a domain with at least two segments separated by dots")
	checkSignerPart(ps, p, path, validation.IsDNS1123Subdomain)
	ps.AtMostBytes(p, len(signer), longestSigner)
}

// checkSignerPart reports the first label of a part that is wrong.
func checkSignerPart(ps *check.Problems, p *field.Path, part string, problems func(string) []string) {
	for label := range strings.SplitSeq(part, ".") {
		found := problems(label)
		for _, problem := range found {
			ps.Add(field.Invalid(p, part, fmt.Sprintf("validating label %q: %s", label, problem)))
		}
		if len(found) > 0 {
			return
		}
	}
}
