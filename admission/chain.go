package admission

import "context"

// Chain is a server's plugins in the order in which they run. A plugin that mutates and validates
// is in both lists. The zero Chain admits everything. A Chain is a [Mutator] and a [Validator], so
// chains can be nested.
type Chain struct {
	Mutators   []Mutator
	Validators []Validator
}

// Mutate runs the mutators in order until one returns an error.
func (c Chain) Mutate(ctx context.Context, r *Request) error {
	for _, m := range c.Mutators {
		if err := m.Mutate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Validate runs the validators in order until one returns an error.
func (c Chain) Validate(ctx context.Context, r *Request) error {
	for _, v := range c.Validators {
		if err := v.Validate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// MutatorFunc adapts a function to a [Mutator].
type MutatorFunc func(context.Context, *Request) error

// Mutate calls f.
func (f MutatorFunc) Mutate(ctx context.Context, r *Request) error { return f(ctx, r) }

// ValidatorFunc adapts a function to a [Validator].
type ValidatorFunc func(context.Context, *Request) error

// Validate calls f.
func (f ValidatorFunc) Validate(ctx context.Context, r *Request) error { return f(ctx, r) }
