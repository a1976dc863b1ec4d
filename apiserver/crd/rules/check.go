package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/kubecel/typed"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// These bound the estimated costs of a rule, and of all rules of a schema.
const ruleLimit, schemaLimit = 10_000_000, 100_000_000

// Check implements [crd.RuleCompiler].
func (c *Compiler) Check(ctx context.Context, path *field.Path, schema, before *apiextensions.JSONSchemaProps) field.ErrorList {
	s, err := structural.Compile(budget.Attach(ctx, budget.Unlimited), schema)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	check := check{ctx: ctx, compiler: c, unchanged: before != nil && equality.Semantic.DeepEqual(schema, before)}
	check.schema(s, typeOf(s, true), path, place{count: 1, bounded: true})
	if err := ctx.Err(); err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("the rules were not checked in time: %w", err))}
	}
	if check.total <= schemaLimit {
		return check.errs
	}
	for _, one := range check.expensive {
		check.errs = append(check.errs, field.Forbidden(one.path, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(check.errs, field.Forbidden(path, exceeds("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", check.total, schemaLimit)))
}

// check collects what is wrong with the rules of a schema.
type check struct {
	ctx       context.Context
	compiler  *Compiler
	unchanged bool // the costs of single rules have been accepted
	errs      field.ErrorList
	total     uint64
	expensive []costly // at most four, the most expensive first
}

type costly struct {
	path *field.Path
	cost uint64
}

// place is where a schema is.
type place struct {
	// count bounds the values of the schema that an object has, if bounded is set.
	count   uint64
	bounded bool
	// apart is the path of the first schema above whose values have no old ones; nil is none.
	apart *field.Path
}

// below returns the place of what is below a schema of which a value has at most that many.
func (p place) below(most *int64, one bool) place {
	switch {
	case one:
	case most == nil:
		p.bounded = false
	default:
		p.count = times(p.count, uint64(max(0, *most)))
	}
	return p
}

// times returns the product of two numbers, or the largest number.
func times(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high > 0 {
		return math.MaxUint64
	}
	return low
}

// schema checks the rules of s and below. t is nil if values of s are hidden from the expressions above.
func (c *check) schema(s *structural.Schema, t *typed.Type, path *field.Path, at place) {
	var elem *typed.Type
	if t != nil {
		elem = t.Elem
	}
	if s.Additional != nil {
		c.part(s.Additional, elem, path.Child("additionalProperties"), at.below(s.Source.MaxProperties, s.Type != "object"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		part := s.Properties[name]
		of, ok := partType(t, name, part)
		if !ok {
			of = typeOf(part, part.Embedded)
		}
		c.part(part, of, path.Child("properties").Key(name), at)
	}
	if s.Items != nil {
		below := at.below(s.Source.MaxItems, s.Type != "array")
		if s.ListType != "map" && at.apart == nil {
			below.apart = path
		}
		c.part(s.Items, elem, path.Child("items"), below)
	}
	c.rules(s, t, path.Child("x-kubernetes-validations"), at)
}

func (c *check) part(s *structural.Schema, t *typed.Type, path *field.Path, at place) {
	if t == nil {
		t = typeOf(s, s.Embedded)
	}
	c.schema(s, t, path, at)
}

// rules checks the rules of s itself.
func (c *check) rules(s *structural.Schema, t *typed.Type, path *field.Path, at place) {
	if len(s.Rules) > 0 && t == nil {
		c.errs = append(c.errs, field.InternalError(path, errors.New("internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations")))
		return
	}
	if c.ctx.Err() != nil {
		return
	}
	all, err := c.compiler.rules(c.ctx, s, t)
	if err != nil {
		c.errs = append(c.errs, field.InternalError(path, err))
	}
	for i := range all {
		c.rule(&all[i], t, path.Index(i), at)
	}
}

func (c *check) rule(r *rule, t *typed.Type, path *field.Path, at place) {
	add := func(err *field.Error) { c.errs = append(c.errs, err) }
	count := at.count
	if !at.bounded {
		count = t.MaxCount()
	}
	c.cost(path.Child("rule"), "estimated rule cost", times(r.cost, count))
	if r.err != nil {
		add(field.Invalid(path.Child("rule"), shown(r.source), r.err.Error()))
	}
	if r.messageErr != nil {
		add(field.Invalid(path.Child("messageExpression"), shown(r.source), r.messageErr.Error()))
	} else if r.message != nil {
		c.cost(path.Child("messageExpression"), "estimated messageExpression cost", r.messageCost)
	}
	switch {
	case r.usesOld && at.apart != nil:
		add(field.Invalid(path.Child("rule"), r.source.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", at.apart)))
	case !r.usesOld && r.source.OptionalOldSelf != nil:
		add(field.Invalid(path.Child("optionalOldSelf"), *r.source.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
	}
}

// cost records the cost of an expression.
func (c *check) cost(path *field.Path, what string, cost uint64) {
	if cost > ruleLimit && !c.unchanged {
		c.errs = append(c.errs, field.Forbidden(path, exceeds(what, cost, ruleLimit)))
	}
	c.total += min(cost, math.MaxUint64-c.total)
	if cost < schemaLimit/100 {
		return
	}
	c.expensive = append(c.expensive, costly{path, cost})
	slices.SortStableFunc(c.expensive, func(a, b costly) int {
		switch {
		case a.cost > b.cost:
			return -1
		case a.cost < b.cost:
			return 1
		}
		return 0
	})
	c.expensive = c.expensive[:min(4, len(c.expensive))]
}

// exceeds says by how much a cost exceeds a limit.
func exceeds(what string, cost, limit uint64) string {
	ratio := float64(cost) / float64(limit)
	factor := fmt.Sprintf("%.1fx", ratio)
	switch {
	case ratio > 100:
		factor = "more than 100x"
	case ratio < 1.5:
		factor = fmt.Sprintf("%fx", ratio)
	}
	return what + " exceeds budget by factor of " + factor + " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
}

// shownRule is a rule as kube-apiserver shows it in errors: its fields have the names of its Go type.
type shownRule struct {
	Rule              string
	Message           string
	MessageExpression string
	Reason            *string
	FieldPath         string
	OptionalOldSelf   *bool
}

func shown(r apiextensions.ValidationRule) shownRule {
	return shownRule{r.Rule, r.Message, r.MessageExpression, r.Reason, r.FieldPath, r.OptionalOldSelf}
}
