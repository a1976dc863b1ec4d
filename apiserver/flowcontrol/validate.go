package flowcontrol

import (
	"errors"
	"fmt"
	"slices"
)

// The bounds that Kubernetes sets on configurations.
const (
	maxPrecedence = 10_000
	maxQueues     = 10_000_000
	// maxNumber keeps sums and products of seats, shares and percentages exact.
	maxNumber = 1<<31 - 1
)

// Validate reports everything that is wrong with c. Each error names the field.
func (c *Config) Validate() error {
	var errs []error
	fail := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if c.Seats < 1 || c.Seats > maxNumber {
		fail("seats", "%d is not between 1 and %d", c.Seats, maxNumber)
	}
	levels := map[string]bool{}
	for i := range c.Levels {
		l := &c.Levels[i]
		at := fmt.Sprintf("levels[%d]", i)
		if l.Name == "" || levels[l.Name] {
			fail(at+".name", "%q is empty or not unique", l.Name)
		}
		levels[l.Name] = true
		l.validate(func(field, format string, args ...any) { fail(at+"."+field, format, args...) })
	}
	schemas := map[string]bool{}
	for i := range c.Schemas {
		s := &c.Schemas[i]
		at := fmt.Sprintf("schemas[%d]", i)
		if s.Name == "" || schemas[s.Name] {
			fail(at+".name", "%q is empty or not unique", s.Name)
		}
		schemas[s.Name] = true
		if !levels[s.Level] {
			fail(at+".level", "there is no level %q", s.Level)
		}
		s.validate(func(field, format string, args ...any) { fail(at+"."+field, format, args...) })
	}
	for _, name := range []string{ExemptName, CatchAllName} {
		if !levels[name] {
			fail("levels", "the level %q is required", name)
		}
		if !schemas[name] {
			fail("schemas", "the schema %q is required", name)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("flowcontrol: %w", err)
	}
	return nil
}

// failer records an error of one field.
type failer func(field, format string, args ...any)

// Validate reports everything that is wrong with l alone. Each error names the field.
func (l *Level) Validate() error { return collect(l.validate) }

// Validate reports everything that is wrong with s alone, which is not whether its
// level exists. Each error names the field.
func (s *Schema) Validate() error { return collect(s.validate) }

func collect(validate func(failer)) error {
	var errs []error
	validate(func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	})
	return errors.Join(errs...)
}

func (l *Level) validate(fail failer) {
	if l.Exempt != (l.Name == ExemptName) {
		fail("exempt", "must be true if and only if the name is %q", ExemptName)
	}
	if l.Shares < 0 || l.Shares > maxNumber {
		fail("shares", "%d is not between 0 and %d", l.Shares, maxNumber)
	}
	if l.LendablePercent < 0 || l.LendablePercent > 100 {
		fail("lendablePercent", "%d is not between 0 and 100", l.LendablePercent)
	}
	if p := l.BorrowingLimitPercent; p != nil && (*p < 0 || *p > maxNumber) {
		fail("borrowingLimitPercent", "%d is not between 0 and %d", *p, maxNumber)
	}
	switch {
	case l.Queues < 0 || l.Queues > maxQueues:
		fail("queues", "%d is not between 0 and %d", l.Queues, maxQueues)
		return
	case l.Exempt && (l.Queues != 0 || l.BorrowingLimitPercent != nil):
		fail("queues", "an exempt level has neither queues nor a borrowing limit")
		return
	case l.Queues == 0:
		if l.HandSize != 0 || l.QueueLength != 0 {
			fail("queues", "0 with a hand size or a queue length")
		}
		return
	}
	if l.QueueLength < 1 || l.QueueLength > maxNumber {
		fail("queueLength", "%d is not between 1 and %d", l.QueueLength, maxNumber)
	}
	if l.HandSize < 1 || l.HandSize > l.Queues || l.HandSize > maxHand {
		fail("handSize", "%d is not between 1 and the smaller of %d queues and %d", l.HandSize, l.Queues, maxHand)
	} else if bits := handBits(l.Queues, l.HandSize); bits > hashBits {
		fail("handSize", "a hand of %d from %d queues takes %d bits of the hash, more than %d", l.HandSize, l.Queues, bits, hashBits)
	}
}

func (s *Schema) validate(fail failer) {
	switch {
	case s.Precedence < 1 || s.Precedence > maxPrecedence:
		fail("precedence", "%d is not between 1 and %d", s.Precedence, maxPrecedence)
	case s.Precedence == 1 && s.Name != ExemptName:
		fail("precedence", "only the schema %q may have 1", ExemptName)
	}
	if s.Distinguisher < ByNothing || s.Distinguisher > ByNamespace {
		fail("distinguisher", "%d is unknown", s.Distinguisher)
	}
	for i := range s.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		s.Rules[i].validate(func(field, format string, args ...any) { fail(at+field, format, args...) })
	}
}

func (r *Rule) validate(fail failer) {
	if len(r.Users)+len(r.Groups)+len(r.ServiceAccounts) == 0 {
		fail("", "at least one user, group or service account is required")
	}
	if slices.Contains(r.Users, "") || slices.Contains(r.Groups, "") {
		fail("", "the name of a user or group is empty")
	}
	for i, a := range r.ServiceAccounts {
		if a.Namespace == "" || a.Name == "" {
			fail(fmt.Sprintf(".serviceAccounts[%d]", i), "namespace and name are required")
		}
	}
	if len(r.Resources)+len(r.Paths) == 0 {
		fail("", "at least one resource or path rule is required")
	}
	for i := range r.Resources {
		rule := &r.Resources[i]
		at := fmt.Sprintf(".resources[%d].", i)
		checkList(fail, at+"verbs", rule.Verbs)
		checkList(fail, at+"apiGroups", rule.APIGroups)
		checkList(fail, at+"resources", rule.Resources)
		if len(rule.Namespaces) > 0 || !rule.ClusterScope {
			checkList(fail, at+"namespaces", rule.Namespaces)
		}
	}
	for i := range r.Paths {
		at := fmt.Sprintf(".paths[%d].", i)
		checkList(fail, at+"verbs", r.Paths[i].Verbs)
		checkList(fail, at+"paths", r.Paths[i].Paths)
	}
}

func checkList(fail failer, field string, list []string) {
	switch {
	case len(list) == 0:
		fail(field, "at least one value is required")
	case len(list) > 1 && slices.Contains(list, All):
		fail(field, "%q must be the only value", All)
	}
}
