//go:build !linux

package machine

import "context"

// Taken returns nothing: containers need Linux.
func (r *Registry) Taken(string) ([]Taken, error) { return nil, nil }

// Sweep does nothing: containers need Linux.
func (r *Registry) Sweep(context.Context, string) ([]string, error) { return nil, nil }
