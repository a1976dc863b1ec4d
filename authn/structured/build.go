package structured

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/oidc"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxIssuers is kube-apiserver's limit.
const maxIssuers = 64

// build makes Settings from a configuration, or returns its errors.
func (c *compiler) build(in *configuration, disallowed []string) (Settings, field.ErrorList) {
	var out Settings
	root := field.NewPath("jwt")
	if len(in.JWT) > maxIssuers {
		return out, field.ErrorList{field.TooMany(root, len(in.JWT), maxIssuers)}
	}
	var problems field.ErrorList
	urls, discoveries := map[string]bool{}, map[string]bool{}
	for i := range in.JWT {
		at, j := root.Index(i), &in.JWT[i]
		made, wrong := c.issuer(j, at, disallowed)
		problems = append(problems, wrong...)
		problems = append(problems, once(urls, at.Child("issuer", "url"), j.Issuer.URL)...)
		if j.Issuer.DiscoveryURL != "" {
			problems = append(problems, once(discoveries, at.Child("issuer", "discoveryURL"), j.Issuer.DiscoveryURL)...)
		}
		out.Issuers = append(out.Issuers, made)
	}
	if a := in.Anonymous; a != nil {
		if !a.Enabled && len(a.Conditions) > 0 {
			problems = append(problems, field.Invalid(field.NewPath("anonymous", "conditions"), a.Conditions, "enabled should be set to true when conditions are defined"))
		}
		out.Anonymous = &Anonymous{Enabled: a.Enabled}
		for _, condition := range a.Conditions {
			out.Anonymous.Paths = append(out.Anonymous.Paths, condition.Path)
		}
	}
	return out, problems
}

// once adds value to seen, and returns an error if it was there.
func once(seen map[string]bool, at *field.Path, value string) field.ErrorList {
	if seen[value] {
		return field.ErrorList{field.Duplicate(at, value)}
	}
	seen[value] = true
	return nil
}

// issuer builds one issuer.
func (c *compiler) issuer(j *jwt, at *field.Path, disallowed []string) (oidc.Issuer, field.ErrorList) {
	problems := j.Issuer.check(at.Child("issuer"), disallowed)
	out := oidc.Issuer{
		URL: j.Issuer.URL, DiscoveryURL: j.Issuer.DiscoveryURL, ClientIDs: j.Issuer.Audiences,
		// With a configuration file, kube-apiserver accepts all algorithms.
		Algorithms: oidc.Algorithms(),
	}
	if text := j.Issuer.CertificateAuthority; text != "" {
		out.Roots = x509.NewCertPool()
		if !out.Roots.AppendCertsFromPEM([]byte(text)) {
			problems = append(problems, field.Invalid(at.Child("issuer", "certificateAuthority"), "<omitted>", "data does not contain any valid RSA or ECDSA certificates"))
		}
	}
	r := &refinement{}
	problems = append(problems, c.claimRules(j.ClaimValidationRules, at.Child("claimValidationRules"), &out, r)...)
	problems = append(problems, c.mappings(&j.ClaimMappings, at.Child("claimMappings"), &out, r)...)
	problems = append(problems, c.userRules(j.UserValidationRules, at.Child("userValidationRules"), r)...)
	out.Refine = r.refine
	return out, problems
}

func (i *issuer) check(at *field.Path, disallowed []string) (problems field.ErrorList) {
	if i.URL == "" {
		problems = append(problems, field.Required(at.Child("url"), ""))
	} else {
		problems = append(problems, checkURL(i.URL, at.Child("url"), disallowed)...)
	}
	if i.DiscoveryURL != "" {
		if i.URL != "" && strings.TrimRight(i.URL, "/") == strings.TrimRight(i.DiscoveryURL, "/") {
			problems = append(problems, field.Invalid(at.Child("discoveryURL"), i.DiscoveryURL, "discoveryURL must be different from URL"))
		}
		problems = append(problems, checkURL(i.DiscoveryURL, at.Child("discoveryURL"), nil)...)
	}
	problems = append(problems, i.checkAudiences(at)...)
	if i.EgressSelectorType != "" {
		problems = append(problems, field.Forbidden(at.Child("egressSelectorType"), "egress selectors are not supported"))
	}
	return problems
}

func checkURL(text string, at *field.Path, disallowed []string) (problems field.ErrorList) {
	if slices.Contains(disallowed, text) {
		problems = append(problems, field.Invalid(at, text, fmt.Sprintf("URL must not overlap with disallowed issuers: %s", slices.Sorted(slices.Values(disallowed)))))
	}
	u, err := url.Parse(text)
	if err != nil {
		// Quote neither the URL nor the error, which contains it: it may contain a password.
		return append(problems, field.Invalid(at, "<omitted>", "the URL cannot be read"))
	}
	shown := u.Redacted()
	for _, rule := range []struct {
		broken bool
		detail string
	}{
		{u.Scheme != "https", "URL scheme must be https"},
		{u.User != nil, "URL must not contain a username or password"},
		{u.RawQuery != "" || u.ForceQuery, "URL must not contain a query"},
		{u.Fragment != "", "URL must not contain a fragment"},
		{u.Scheme == "https" && u.Host == "", "URL must contain a host"},
	} {
		if rule.broken {
			problems = append(problems, field.Invalid(at, shown, rule.detail))
		}
	}
	return problems
}

func (i *issuer) checkAudiences(at *field.Path) (problems field.ErrorList) {
	const matchAny = "MatchAny"
	policy := at.Child("audienceMatchPolicy")
	if len(i.Audiences) == 0 {
		return field.ErrorList{field.Required(at.Child("audiences"), fmt.Sprintf("at least one %s is required", at.Child("audiences")))}
	}
	seen := map[string]bool{}
	for n, audience := range i.Audiences {
		if audience == "" {
			problems = append(problems, field.Required(at.Child("audiences").Index(n), ""))
		}
		problems = append(problems, once(seen, at.Child("audiences").Index(n), audience)...)
	}
	switch {
	case len(i.Audiences) > 1 && i.AudienceMatchPolicy != matchAny:
		problems = append(problems, field.Invalid(policy, i.AudienceMatchPolicy, "audienceMatchPolicy must be MatchAny for multiple audiences"))
	case i.AudienceMatchPolicy != "" && i.AudienceMatchPolicy != matchAny:
		problems = append(problems, field.Invalid(policy, i.AudienceMatchPolicy, "audienceMatchPolicy must be empty or MatchAny for single audience"))
	}
	return problems
}
