package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/typed"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
)

// The variables of a rule.
const self, oldSelf = "self", "oldSelf"

// errNoType is the error of a schema whose values expressions cannot see.
var errNoType = errors.New("failed to convert to declType for CEL validation rules")

// rule is a compiled rule. One that cannot be compiled has err alone.
type rule struct {
	source   apiextensions.ValidationRule
	program  cel.Program
	cost     uint64 // the highest that was estimated
	usesOld  bool
	optional bool // oldSelf is an optional value
	err      error

	message     cel.Program // nil without a message expression
	messageCost uint64
	messageErr  error

	// fieldPath is the path of the field to which an error belongs, relative to the rule's value;
	// empty if it belongs to the value.
	fieldPath string
}

// typeOf returns the type of values of s.
func typeOf(s *structural.Schema, resource bool) *typed.Type { return typed.Of(s, resource) }

// rules compiles the rules of s itself, whose values are of type t.
func (c *Compiler) rules(ctx context.Context, s *structural.Schema, t *typed.Type) ([]rule, error) {
	if len(s.Rules) == 0 {
		return nil, nil
	}
	if t == nil {
		return nil, errNoType
	}
	var envs [2]*cel.Env // the second with an optional oldSelf
	all := make([]rule, len(s.Rules))
	for i, source := range s.Rules {
		r := &all[i]
		r.source, r.optional = source, source.OptionalOldSelf != nil && *source.OptionalOldSelf
		which := 0
		if r.optional {
			which = 1
		}
		if envs[which] == nil {
			env, err := t.Declare(c.env, self, oldSelf, r.optional)
			if err != nil {
				return nil, err
			}
			envs[which] = env
		}
		if r.compile(ctx, envs[which], t); r.err != nil || source.FieldPath == "" {
			continue
		}
		if path, err := s.FieldPath(source.FieldPath); err == nil {
			r.fieldPath = path.String()
		}
	}
	return all, nil
}

func (r *rule) compile(ctx context.Context, env *cel.Env, t *typed.Type) {
	if strings.TrimSpace(r.source.Rule) == "" {
		return
	}
	ast, err := kubecel.Compile(ctx, env, r.source.Rule)
	if err != nil {
		r.err = err
		return
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		r.err = errors.New("cel expression must evaluate to a bool")
		return
	}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		r.usesOld = r.usesOld || reference.Name == oldSelf
	}
	program, err := kubecel.Program(env, ast)
	if err != nil {
		r.err = err
		return
	}
	if r.cost, err = kubecel.EstimateCost(env, ast, t.SizeAt); err != nil {
		r.err = fmt.Errorf("cost estimation failed: %w", err)
		return
	}
	r.program = program
	if r.source.MessageExpression != "" {
		r.message, r.messageCost, r.messageErr = compileMessage(ctx, env, r.source.MessageExpression, t)
	}
}

func compileMessage(ctx context.Context, env *cel.Env, expression string, t *typed.Type) (cel.Program, uint64, error) {
	ast, err := kubecel.Compile(ctx, env, expression)
	if err != nil {
		return nil, 0, fmt.Errorf("messageExpression %w", err)
	}
	if !ast.OutputType().IsExactType(cel.StringType) {
		return nil, 0, errors.New("messageExpression must evaluate to a string")
	}
	program, err := kubecel.Program(env, ast)
	if err != nil {
		return nil, 0, errors.New("messageExpression " + strings.TrimPrefix(err.Error(), "program "))
	}
	cost, err := kubecel.EstimateCost(env, ast, t.SizeAt)
	if err != nil {
		return nil, 0, fmt.Errorf("cost estimation failed for messageExpression: %w", err)
	}
	return program, cost, nil
}

// node holds the rules of a schema and of those below it. A schema without any has no node.
type node struct {
	schema  *structural.Schema
	view    *structural.Schema // as expressions see it
	rules   []rule
	err     error // the rules could not be compiled
	usesOld bool

	items, additional *node
	properties        map[string]*node
	names             []string // of properties, sorted
}

// compilation compiles the rules of one definition. Schemas that are one (see [structural.Schema.Shared]) share a node.
type compilation struct {
	*Compiler
	nodes map[use]*node
}

// use is a schema, and whether expressions can see its values. Their type follows from the schema.
type use struct {
	schema  *structural.Schema
	visible bool
}

// node compiles the rules of s and below. t is nil if expressions cannot see values of s.
func (c *compilation) node(s *structural.Schema, t *typed.Type, resource bool) *node {
	n := &node{schema: s}
	n.rules, n.err = c.rules(context.Background(), s, t) // accepted before
	for i := range n.rules {
		n.usesOld = n.usesOld || n.rules[i].usesOld
	}
	if n.view = s; resource && len(n.rules) > 0 {
		n.view = s.WithMeta()
	}
	var elem *typed.Type
	if t != nil {
		elem = t.Elem
	}
	n.items, n.additional = c.below(s.Items, elem), c.below(s.Additional, elem)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		part := s.Properties[name]
		of, visible := partType(t, name, part)
		if !visible {
			continue
		}
		if below := c.below(part, of); below != nil {
			if n.properties == nil {
				n.properties = map[string]*node{}
			}
			n.properties[name] = below
			n.names = append(n.names, name)
		}
	}
	if len(n.rules) == 0 && n.err == nil && n.items == nil && n.additional == nil && n.properties == nil {
		return nil
	}
	return n
}

func (c *compilation) below(s *structural.Schema, t *typed.Type) *node {
	if s == nil {
		return nil
	}
	at := use{s, t != nil}
	n, done := c.nodes[at]
	if !done {
		n = c.node(s, t, s.Embedded)
		c.nodes[at] = n
	}
	return n
}

// partType returns the type of a field of an object of type t. A field that expressions cannot name has a
// type of its own.
func partType(t *typed.Type, name string, part *structural.Schema) (*typed.Type, bool) {
	escaped, ok := typed.Escape(name)
	if !ok {
		of := typeOf(part, part.Embedded)
		return of, of != nil
	}
	if t == nil || t.Fields[escaped] == nil {
		return nil, false
	}
	return t.Fields[escaped], true
}
