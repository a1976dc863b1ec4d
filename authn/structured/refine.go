package structured

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/planekit/planekit/authn/user"
)

// refinement holds the expressions of an issuer that define a user; each may be nil.
type refinement struct {
	username, groups, uid *expression
	extra                 []extra
	claimRules, userRules []rule
}

type extra struct {
	key   string
	value *expression
}

type rule struct {
	*expression
	message string
}

// verifiesEmail reports whether any expression except that of groups reads whether an e-mail
// address is verified.
func (r *refinement) verifiesEmail() bool {
	const claim = "email_verified"
	for _, rule := range r.claimRules {
		if rule.expression != nil && rule.selects(claim) {
			return true
		}
	}
	for _, e := range r.extra {
		if e.value != nil && e.value.selects(claim) {
			return true
		}
	}
	return r.username != nil && r.username.selects(claim)
}

// refine completes and checks u, the user of a valid token.
func (r *refinement) refine(ctx context.Context, claims map[string]json.RawMessage, u *user.Info) error {
	said := map[string]any{claimsName: newClaims(claims)}
	if r.username != nil {
		name, err := r.username.text(ctx, said)
		if err != nil {
			return fmt.Errorf("oidc: error evaluating username claim expression: %w", err)
		}
		if name == "" {
			return errors.New("oidc: empty username via CEL expression is not allowed")
		}
		u.Name = name
	}
	if r.groups != nil {
		var err error
		if u.Groups, err = r.groups.texts(ctx, said); err != nil {
			return fmt.Errorf("oidc: error evaluating group claim expression: %w", err)
		}
	}
	if r.uid != nil {
		var err error
		if u.UID, err = r.uid.text(ctx, said); err != nil {
			return fmt.Errorf("oidc: error evaluating uid claim expression: %w", err)
		}
	}
	for _, e := range r.extra {
		values, err := e.value.texts(ctx, said)
		if err != nil {
			return fmt.Errorf("oidc: error evaluating extra claim expression: %w", err)
		}
		if len(values) > 0 {
			if u.Extra == nil {
				u.Extra = map[string][]string{}
			}
			u.Extra[e.key] = values
		}
	}
	if err := hold(ctx, r.claimRules, said); err != nil {
		return fmt.Errorf("oidc: error evaluating claim validation expression: %w", err)
	}
	if len(r.userRules) == 0 {
		return nil
	}
	if err := hold(ctx, r.userRules, map[string]any{userName: newUser(u)}); err != nil {
		return fmt.Errorf("oidc: error evaluating user info validation rule: %w", err)
	}
	return nil
}

// evaluate evaluates e. Its errors do not contain those of CEL, which may quote the token.
func (e *expression) evaluate(ctx context.Context, variables map[string]any) (ref.Val, error) {
	v, _, err := e.program.ContextEval(ctx, variables)
	if err != nil {
		return nil, fmt.Errorf("expression '%s' resulted in error: %s", e.source, harmless(err))
	}
	return v, nil
}

// harmless returns the kind of an error of CEL without its values.
func harmless(err error) string {
	text := err.Error()
	for _, kind := range []string{"no such key", "no such overload", "operation cancelled: actual cost limit exceeded", "operation interrupted"} {
		if strings.Contains(text, kind) {
			return kind
		}
	}
	return "the claims are not what it expects"
}

var (
	errNoText  = errors.New("expression must return a string")
	errNoTexts = errors.New("expression must return a string or a list of strings")
)

func (e *expression) text(ctx context.Context, variables map[string]any) (string, error) {
	v, err := e.evaluate(ctx, variables)
	if err != nil {
		return "", err
	}
	text, ok := v.(types.String)
	if !ok {
		return "", errNoText
	}
	return string(text), nil
}

// texts returns the strings of an expression whose value is a string or a list of strings, without
// empty ones.
func (e *expression) texts(ctx context.Context, variables map[string]any) ([]string, error) {
	v, err := e.evaluate(ctx, variables)
	if err != nil {
		return nil, err
	}
	var out []string
	add := func(v ref.Val) bool {
		text, ok := v.(types.String)
		if ok && text != "" {
			out = append(out, string(text))
		}
		return ok
	}
	if v.Type() == cel.NullType {
		return nil, nil
	}
	list, ok := v.(traits.Lister)
	if !ok {
		if !add(v) {
			return nil, errNoTexts
		}
		return out, nil
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		if !add(it.Next()) {
			return nil, errNoTexts
		}
	}
	return out, nil
}

// hold checks that all rules are true.
func hold(ctx context.Context, rules []rule, variables map[string]any) error {
	for _, rule := range rules {
		v, err := rule.evaluate(ctx, variables)
		if err != nil {
			return err
		}
		if v != types.True {
			return fmt.Errorf("validation expression '%s' failed: %s", rule.source, rule.message)
		}
	}
	return nil
}
