package structured

import (
	"strings"

	"github.com/planekit/planekit/authn/oidc"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimRules adds rules about single claims to out, and expressions to r.
func (c *compiler) claimRules(rules []claimRule, at *field.Path, out *oidc.Issuer, r *refinement) (problems field.ErrorList) {
	claims, expressions := map[string]bool{}, map[string]bool{}
	for i, rule := range rules {
		at := at.Index(i)
		switch {
		case rule.Claim != "" && rule.Expression != "":
			problems = append(problems, field.Invalid(at, rule.Claim, "claim and expression can't both be set"))
		case rule.Claim == "" && rule.Expression == "":
			problems = append(problems, field.Required(at, "claim or expression is required"))
		case rule.Claim != "":
			if rule.Message != "" {
				problems = append(problems, field.Invalid(at.Child("message"), rule.Message, "may not be specified when claim is set"))
			}
			problems = append(problems, once(claims, at.Child("claim"), rule.Claim)...)
			if out.RequiredClaims == nil {
				out.RequiredClaims = map[string]string{}
			}
			out.RequiredClaims[rule.Claim] = rule.RequiredValue
		default:
			if rule.RequiredValue != "" {
				problems = append(problems, field.Invalid(at.Child("requiredValue"), rule.RequiredValue, "may not be specified when expression is set"))
			}
			if twice := once(expressions, at.Child("expression"), rule.Expression); twice != nil {
				problems = append(problems, twice...)
				continue
			}
			made, wrong := c.rule(c.claims, rule.Expression, rule.Message, at.Child("expression"))
			problems = append(problems, wrong...)
			r.claimRules = append(r.claimRules, made)
		}
	}
	return problems
}

// userRules adds expressions to r.
func (c *compiler) userRules(rules []userRule, at *field.Path, r *refinement) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, rule := range rules {
		at := at.Index(i).Child("expression")
		if rule.Expression == "" {
			problems = append(problems, field.Required(at, ""))
			continue
		}
		if twice := once(seen, at, rule.Expression); twice != nil {
			problems = append(problems, twice...)
			continue
		}
		made, wrong := c.rule(c.user, rule.Expression, rule.Message, at)
		problems = append(problems, wrong...)
		r.userRules = append(r.userRules, made)
	}
	return problems
}

// mappings adds mappings of single claims to out, and expressions to r. r must contain the rules
// about claims already.
func (c *compiler) mappings(m *claimMappings, at *field.Path, out *oidc.Issuer, r *refinement) (problems field.ErrorList) {
	var wrong field.ErrorList
	if r.username, wrong = c.prefixed(&m.Username, at.Child("username"), true); len(wrong) == 0 && r.username == nil {
		out.UsernameClaim, out.UsernamePrefix = m.Username.Claim, *m.Username.Prefix
	}
	problems = append(problems, wrong...)
	if r.groups, wrong = c.prefixed(&m.Groups, at.Child("groups"), false); len(wrong) == 0 && m.Groups.Claim != "" {
		out.GroupsClaim, out.GroupsPrefix = m.Groups.Claim, *m.Groups.Prefix
	}
	problems = append(problems, wrong...)
	switch uid := at.Child("uid"); {
	case m.UID.Claim != "" && m.UID.Expression != "":
		problems = append(problems, field.Invalid(uid, "", "claim and expression can't both be set"))
	case m.UID.Expression != "":
		r.uid, wrong = c.value(m.UID.Expression, uid.Child("expression"))
		problems = append(problems, wrong...)
	default:
		out.UIDClaim = m.UID.Claim
	}
	problems = append(problems, c.extras(m.Extra, at.Child("extra"), r)...)
	if r.username != nil && r.username.selects("email") && !r.verifiesEmail() {
		problems = append(problems, field.Invalid(at.Child("username", "expression"), m.Username.Expression,
			"claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"))
	}
	return problems
}

// prefixed returns the expression of p, or nil if it has none.
func (c *compiler) prefixed(p *prefixedClaim, at *field.Path, required bool) (e *expression, problems field.ErrorList) {
	switch {
	case p.Expression != "" && p.Claim != "":
		problems = append(problems, field.Invalid(at, "", "claim and expression can't both be set"))
	case p.Expression != "":
		if p.Prefix != nil {
			problems = append(problems, field.Invalid(at.Child("prefix"), *p.Prefix, "may not be specified when expression is set"))
		}
		var wrong field.ErrorList
		e, wrong = c.value(p.Expression, at.Child("expression"))
		problems = append(problems, wrong...)
	case p.Claim != "" && p.Prefix == nil:
		problems = append(problems, field.Required(at.Child("prefix"), "prefix is required when claim is set. It can be set to an empty string to disable prefixing"))
	case p.Claim == "" && required:
		problems = append(problems, field.Required(at, "claim or expression is required"))
	}
	return e, problems
}

func (c *compiler) extras(mappings []extraMapping, at *field.Path, r *refinement) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, m := range mappings {
		at := at.Index(i)
		key := at.Child("key")
		problems = append(problems, validation.IsDomainPrefixedPath(key, m.Key)...)
		if m.Key != strings.ToLower(m.Key) {
			problems = append(problems, field.Invalid(key, m.Key, "must be lowercase"))
		}
		if ofKubernetes(m.Key) {
			problems = append(problems, field.Invalid(key, m.Key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"))
		}
		if twice := once(seen, key, m.Key); twice != nil {
			problems = append(problems, twice...)
			continue
		}
		if m.ValueExpression == "" {
			problems = append(problems, field.Required(at.Child("valueExpression"), ""))
			continue
		}
		e, wrong := c.value(m.ValueExpression, at.Child("valueExpression"))
		problems = append(problems, wrong...)
		r.extra = append(r.extra, extra{m.Key, e})
	}
	return problems
}

// ofKubernetes reports whether a key is reserved for Kubernetes.
func ofKubernetes(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	return qualified && (strings.HasSuffix("."+domain, ".kubernetes.io") || strings.HasSuffix("."+domain, ".k8s.io"))
}
