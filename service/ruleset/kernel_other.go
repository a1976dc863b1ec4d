//go:build !linux

package ruleset

import (
	"context"
	"errors"
	"io"
)

// Kernel is a table of the kernel, of which only Linux has any.
type Kernel struct{ Target }

// NewKernel returns an error.
func NewKernel(string, string) (*Kernel, error) {
	return nil, errors.New("nftables needs Linux")
}

// NewBridgeKernel returns an error.
func NewBridgeKernel(name, owner string) (*Kernel, error) { return NewKernel(name, owner) }

// Delete returns an error.
func (*Kernel) Delete(context.Context) error { return errors.New("nftables needs Linux") }

// Lock returns an error.
func (*Kernel) Lock() (io.Closer, error) { return nil, errors.New("nftables needs Linux") }

// EnterNamespace returns an error.
func EnterNamespace(string) error { return errors.New("network namespaces need Linux") }

// BridgePorts returns an error.
func BridgePorts(string) ([]string, error) { return nil, errors.New("bridges need Linux") }
