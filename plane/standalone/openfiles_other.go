//go:build !linux && !darwin

package standalone

import "errors"

// limitFiles returns an error: this system has no such limit.
func limitFiles(int64) error { return errors.ErrUnsupported }
