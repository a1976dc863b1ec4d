//go:build !linux

package proxy

import (
	"context"
	"errors"
)

func (*Proxy) forget(context.Context, flows) error { return nil }

func enter(string) error { return errors.New("network namespaces need Linux") }
