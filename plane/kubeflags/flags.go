// Package kubeflags gives a program that embeds a control plane the flags of kube-apiserver and
// kube-controller-manager: authentication, authorization, admission, audit, priority and fairness,
// services and controllers. They have Kubernetes' names, meanings and defaults.
//
//	options := kubeflags.Add(flags)
//	flags.Parse(os.Args[1:])
//	if err := options.Check(); err != nil {
//		return err
//	}
//	config := plane.Config{Log: log}
//	if err := options.Apply(&config, s); err != nil {
//		return err
//	}
//	p, err := plane.New(config)
//
// Files that the flags name are read by Apply, and by [plane.New] for authentication. Those of
// authorities, tokens, passwords and OpenID Connect issuers are read again when they change. Errors
// name the flag and the file.
//
// # Left out
//
// The flags that say where the server listens and where its objects are: they differ between programs.
// Those of its certificates are apart, see [AddServing]. kube-scheduler has a configuration file instead of flags.
package kubeflags

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
)

// Options are the values of the flags. They are valid once the flags are parsed.
type Options struct {
	authentication authentication
	authorization  authorization
	admission      admission
	audit          auditing
	fairness       fairness
	services       services
	controllers    *controllerFlags // nil without
	// given reports whether the command line has a flag whose name begins with prefix.
	given func(prefix string) bool
}

// Add adds the flags to a set.
func Add(flags *pflag.FlagSet) *Options {
	o := AddServer(flags)
	o.controllers = &controllerFlags{}
	o.controllers.add(flags)
	return o
}

// AddServer adds the flags of kube-apiserver alone to a set. The controllers then run with their defaults, or not at
// all if the program says so in its [plane.Config].
func AddServer(flags *pflag.FlagSet) *Options {
	o := &Options{given: func(prefix string) (any bool) {
		flags.Visit(func(f *pflag.Flag) { any = any || strings.HasPrefix(f.Name, prefix) })
		return any
	}}
	o.authentication.add(flags)
	o.authorization.add(flags)
	o.admission.add(flags)
	o.audit.add(flags)
	o.fairness.add(flags)
	o.services.add(flags)
	return o
}

// Check reports values that are out of range or contradict each other. Call it before all other
// methods.
func (o *Options) Check() error {
	if err := cmp.Or(o.authorization.check(), o.authentication.check(o)); err != nil {
		return err
	}
	return errors.Join(o.admission.check(), o.audit.check(), o.controllers.check(), o.services.check(), o.fairness.check())
}

// Apply applies the flags to config. It adds to Authenticators, Parts, Configure and the metrics of
// controllers. Parts that must run are started on s, which must stop after the control plane.
func (o *Options) Apply(config *plane.Config, s *stack.Stack) error {
	for _, apply := range []func(*plane.Config, *stack.Stack) error{
		o.applyAuthentication, o.authorization.apply, o.admission.apply, o.audit.apply, o.fairness.apply, o.services.apply, o.controllers.apply,
	} {
		if err := apply(config, s); err != nil {
			return err
		}
	}
	return nil
}
