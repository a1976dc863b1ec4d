package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/typed"
	"github.com/planekit/planekit/internal/structural"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// objectLimit bounds the costs of all evaluations for one object; maxMessage the bytes of a message that an
// expression makes.
const objectLimit, maxMessage = 10_000_000, 5 << 10

// validator implements crd.Rules.
type validator struct{ root *node }

// Validate implements [crd.Rules].
func (v *validator) Validate(ctx context.Context, obj, old map[string]any, warn func(string)) field.ErrorList {
	if v.root == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kubecel.TimeLimit)
	defer cancel()
	e := &evaluation{ctx: ctx, warn: warn, left: objectLimit}
	var was any
	var r ratchet
	if old != nil {
		was, r.pair = old, structural.Correlate(obj, old, v.root.schema)
	}
	e.value(v.root, nil, obj, was, r)
	return e.errs
}

// evaluation is the evaluation of all rules for one object.
type evaluation struct {
	ctx  context.Context
	warn func(string)
	errs field.ErrorList
	// bytes is how long the texts of errs are.
	bytes int
	left  int64 // of the limit of costs; negative ends the evaluation
}

// ratchet finds out whether a value has changed.
type ratchet struct {
	// pair is the value and its old one; nil if it has none. above is that of the closest value above
	// that has an old one.
	pair, above *structural.Pair
}

func (r ratchet) unchanged() bool {
	if r.pair != nil {
		return r.pair.Equal()
	}
	return r.above.Equal()
}

func (r ratchet) key(name string) ratchet {
	switch {
	case r.pair == nil:
		return r
	case r.above == nil && (name == "apiVersion" || name == "kind"):
		return ratchet{} // both objects have been converted to the same version
	}
	return ratchet{r.pair.Key(name), r.pair}
}

func (r ratchet) index(i int) ratchet {
	if r.pair == nil {
		return r
	}
	return ratchet{r.pair.Index(i), r.pair}
}

// value evaluates the rules of v, and of what is in it.
func (e *evaluation) value(n *node, path *field.Path, v, old any, r ratchet) {
	if n == nil || v == nil {
		return
	}
	e.rules(n, path, v, old, r)
	switch v := v.(type) {
	case map[string]any:
		was, _ := old.(map[string]any)
		e.object(n, path, v, was, r)
	case []any:
		if n.items == nil {
			return
		}
		was, _ := old.([]any)
		olds := n.schema.OldItems(was)
		for i, item := range v {
			if e.left < 0 {
				return
			}
			e.value(n.items, path.Index(i), item, olds(item), r.index(i))
		}
	}
}

func (e *evaluation) object(n *node, path *field.Path, v, old map[string]any, r ratchet) {
	if n.additional != nil {
		for name, field := range v {
			if e.left < 0 {
				return
			}
			e.value(n.additional, path.Key(name), field, old[name], r.key(name))
		}
	}
	names := n.names
	if len(v) < len(names) { // there may be very many objects with few fields
		names = names[:0:0]
		for name := range v {
			if n.properties[name] != nil {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	for _, name := range names {
		if e.left < 0 {
			return
		}
		if field, ok := v[name]; ok {
			e.value(n.properties[name], path.Child(name), field, old[name], r.key(name))
		}
	}
}

// maxErrors and maxErrorBytes bound the errors of an object, and their texts.
const maxErrors, maxErrorBytes = 500, 512 << 10

// fail reports an error. After very many, it ends the evaluation.
func (e *evaluation) fail(err *field.Error) {
	size := len(err.Field) + len(err.Detail)
	if text, ok := err.BadValue.(string); ok {
		size += len(text)
	}
	if e.bytes += size; len(e.errs) > 0 && (len(e.errs) >= maxErrors || e.bytes > maxErrorBytes) {
		if e.left >= 0 {
			e.errs = append(e.errs, structural.TooManyErrors(nil))
		}
		e.left = -1
		return
	}
	e.errs = append(e.errs, err)
}

const outOfBudget = "validation failed due to running out of cost budget, no further validation rules will be run"

// rules evaluates the rules of v itself.
func (e *evaluation) rules(n *node, path *field.Path, v, old any, r ratchet) {
	of := n.schema.Type
	switch {
	case e.left < 0:
		return
	case n.err != nil:
		e.fail(field.Invalid(path, of, "rule compiler initialization error: "+n.err.Error()))
		return
	case len(n.rules) == 0:
		return
	case e.left == 0:
		e.fail(field.Invalid(path, of, outOfBudget))
		e.left = -1
		return
	}
	vars, optional := variables(n, v, old)
	for i := range n.rules {
		rule := &n.rules[i]
		switch {
		case rule.err != nil:
			e.fail(field.Invalid(path, of, "rule compile error: "+rule.err.Error()))
			continue
		case rule.program == nil || rule.usesOld && isNil(old) && !rule.optional:
			continue
		}
		with := vars
		if rule.optional {
			with = optional
		}
		result, ok := e.evaluate(rule, path, of, with)
		if !ok {
			return
		}
		if result == nil || result == types.True {
			continue // a null is not true
		}
		if !e.violated(n, rule, path, v, with, r) {
			return
		}
	}
}

// evaluate evaluates a rule. It returns nil if that failed, and false if no other rule is to be evaluated.
func (e *evaluation) evaluate(r *rule, path *field.Path, of string, vars *activation) (result ref.Val, ok bool) {
	result, details, err := r.program.ContextEval(e.ctx, vars)
	end := func(err *field.Error) (ref.Val, bool) {
		e.fail(err)
		e.left = -1
		return nil, false
	}
	cost, known := costOf(details)
	switch {
	case !known:
		return end(field.InternalError(path, fmt.Errorf("runtime cost could not be calculated for validation rule: %v, no further validation rules will be run", shownText(r))))
	case cost > uint64(e.left):
		return end(field.Invalid(path, of, outOfBudget))
	}
	e.left -= int64(cost)
	if b := budget.From(e.ctx); errors.Is(b.Err(), budget.ErrExceeded) {
		return end(field.Invalid(path, of, b.Err().Error()))
	}
	switch {
	case err == nil:
		return result, true
	case isLimit(err):
		return end(field.Invalid(path, of, fmt.Sprintf("'%v': no further validation rules will be run due to call cost exceeds limit for rule: %v", err, shownText(r))))
	case e.ctx.Err() != nil:
		return end(field.Invalid(path, of, fmt.Sprintf("'%v': no further validation rules will be run due to the time that was spent for rule: %v", err, shownText(r))))
	case strings.HasPrefix(err.Error(), "no such overload"):
		e.fail(field.Invalid(path, of, fmt.Sprintf("'%v': call arguments did not match a supported operator, function or macro signature for rule: %v", err, shownText(r))))
	default:
		e.fail(field.Invalid(path, of, fmt.Sprintf("%v evaluating rule: %v", err, shownText(r))))
	}
	return nil, true
}

func costOf(details *cel.EvalDetails) (uint64, bool) {
	if details == nil || details.ActualCost() == nil {
		return 0, false
	}
	return min(*details.ActualCost(), math.MaxInt64), true
}

func isLimit(err error) bool {
	return strings.HasPrefix(err.Error(), "operation cancelled: actual cost limit exceeded")
}

// violated reports that v violates a rule. It returns false if no other rule is to be evaluated.
func (e *evaluation) violated(n *node, r *rule, path *field.Path, v any, vars *activation, changed ratchet) bool {
	if r.fieldPath != "" {
		path = path.Child(r.fieldPath)
	}
	add := func(err *field.Error) {
		if !r.usesOld && changed.unchanged() {
			e.warn(err.Error())
			return
		}
		e.fail(err)
	}
	detail := strings.TrimSpace(r.source.Message)
	if r.source.Message == "" {
		detail = "failed rule: " + shownText(r)
	}
	if r.message != nil {
		text, err := e.message(r, vars)
		if err != nil {
			add(field.Invalid(path, n.schema.Type, err.Error()))
			e.left = -1
			return false
		}
		if text != "" {
			detail = text
		}
	}
	if n.schema.Type == "object" || n.schema.Type == "array" {
		v = field.OmitValueType{}
	}
	reason := ""
	if r.source.Reason != nil {
		reason = *r.source.Reason
	}
	switch reason {
	case "FieldValueForbidden":
		add(field.Forbidden(path, detail))
	case "FieldValueRequired":
		add(field.Required(path, detail))
	case "FieldValueDuplicate":
		add(field.Duplicate(path, v))
	default:
		add(field.Invalid(path, v, detail))
	}
	return true
}

// message evaluates a message expression. The text is empty if it fails; the error says why no other
// expression is to be evaluated.
func (e *evaluation) message(r *rule, vars *activation) (string, error) {
	result, details, err := r.message.ContextEval(e.ctx, vars)
	cost, known := costOf(details)
	switch {
	case !known:
		return "", fmt.Errorf("runtime cost could not be calculated for messageExpression: %q", r.source.MessageExpression)
	case cost > uint64(e.left):
		return "", errors.New("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run")
	case err != nil && isLimit(err):
		return "", fmt.Errorf("no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", r.source.MessageExpression)
	}
	e.left -= int64(cost)
	if err != nil {
		return "", nil
	}
	text, _ := result.Value().(string)
	if text = strings.TrimSpace(text); len(text) > maxMessage || strings.Contains(text, "\n") {
		return "", nil
	}
	return text, nil
}

// shownText returns what stands for a rule in errors.
func shownText(r *rule) string {
	if r.source.Message != "" {
		return strings.TrimSpace(r.source.Message)
	}
	return strings.TrimSpace(r.source.Rule)
}

// activation holds the variables of a rule.
type activation struct {
	self, old ref.Val // old is nil if oldSelf is not defined
}

// ResolveName implements [interpreter.Activation].
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case self:
		return a.self, true
	case oldSelf:
		return a.old, a.old != nil
	}
	return nil, false
}

// Parent implements [interpreter.Activation].
func (a *activation) Parent() interpreter.Activation { return nil }

// isNil reports whether there is no old value.
func isNil(old any) bool {
	switch old := old.(type) {
	case nil:
		return true
	case map[string]any:
		return old == nil
	case []any:
		return old == nil
	}
	return false
}

// variables returns the variables of the rules of n, and those of the rules to which oldSelf is optional.
func variables(n *node, v, old any) (vars, optional *activation) {
	vars = &activation{self: typed.Value(v, n.view)}
	if !n.usesOld {
		return vars, vars
	}
	optional = &activation{vars.self, types.OptionalNone}
	if !isNil(old) {
		vars.old = typed.Value(old, n.view)
		optional.old = types.OptionalOf(vars.old)
	}
	return vars, optional
}
