// Package rules evaluates the validation rules of CustomResourceDefinitions, x-kubernetes-validations,
// which are written in CEL
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules).
//
//	compiler, err := rules.New()
//	config.Resources = append(config.Resources, crd.Resource(compiler))
//	definitions, err := crd.New(crd.Config{Server: server, Rules: compiler})
//
// # Model
//
// A rule has the variables self, the value of its schema, and oldSelf, which that value was before an
// update. Both have the types of the schema; see package internal/kubecel/typed. The functions are those of
// kube-apiserver; see package internal/kubecel. A rule that mentions oldSelf is evaluated only if there is an
// old value, unless optionalOldSelf is set. A rule that does not, and is violated by a value that has not
// changed, is a warning.
//
// The rules of a schema are compiled at their first use. A definition is refused if the estimated cost of a
// rule exceeds ten million, or that of all rules one hundred million, in CEL's units. An evaluation that costs
// more than one million fails, and so do all after the first ten million for one object.
//
// # Failure
//
// Rules fail closed: a rule that cannot be evaluated is violated. The errors are worded as those of
// kube-apiserver. An object whose rules take more than ten seconds is refused.
//
// This package is separate from package crd so that only programs that evaluate rules link CEL.
package rules

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/apiserver/crd"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/structural"
)

// A Compiler compiles rules. It may be used by many goroutines.
type Compiler struct{ env *cel.Env }

var _ crd.RuleCompiler = (*Compiler)(nil)

// New returns a compiler.
func New() (*Compiler, error) {
	env, err := kubecel.NewEnv()
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return &Compiler{env}, nil
}

// Compile returns the compiled rules of a schema of whole resources.
func (c *Compiler) Compile(s *structural.Schema) crd.Rules {
	all := &compilation{c, map[use]*node{}}
	return &validator{all.node(s, typeOf(s, true), true)}
}
