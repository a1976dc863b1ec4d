package storage_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	"github.com/planekit/planekit/apiserver/kube/storage"
)

func TestKinds(t *testing.T) { kindtest.Run(t, storage.Resources()) }
