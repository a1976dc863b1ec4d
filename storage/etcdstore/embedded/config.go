package embedded

import (
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
)

const (
	defaultQuota      = 8 << 30 // bytes; etcd's documented most for a healthy member
	defaultCompaction = 5 * time.Minute

	memberName = "planekit"
	// peerURL is the address for peers. Nothing listens on it, but the member's identity is derived
	// from it, so it must not change.
	peerURL = "http://127.0.0.1:2380"

	// A sole member elects itself after one to two election timeouts, which these ticks determine.
	// They may be short: without other members, a late tick has no effect.
	tickMillis    = 20
	electionTicks = 2

	// The values below are etcd's defaults.
	maxRequestBytes = 1536 << 10
	maxTxnOps       = 128
	maxFiles        = 5 // snapshots and WAL segments to keep
	bcryptCost      = 10
	tokenTTL        = 300 // seconds

	// snapshotCount is the number of entries after which etcd writes a snapshot: of no more than that, and
	// of what was written at once, it replays the log when it starts.
	snapshotCount = 500
	// catchUpEntries is the number of entries kept in memory. There are no slow followers that need them, but
	// etcd panics at a start if it drops entries that it replays before it has elected itself, so that
	// all that are replayed must be kept.
	catchUpEntries = 2 * snapshotCount
	// progressInterval is the time between progress events of a quiet watch. kube-apiserver
	// configures etcd with 5 seconds.
	progressInterval = 5 * time.Second
)

// etcd returns the configuration of the etcd server.
func (c Config) etcd(log *zap.Logger) (config.ServerConfig, error) {
	urls, err := types.NewURLs([]string{peerURL})
	if err != nil {
		return config.ServerConfig{}, fmt.Errorf("peer address: %w", err)
	}
	return config.ServerConfig{
		Name:                       memberName,
		DataDir:                    c.Dir,
		PeerURLs:                   urls,
		InitialPeerURLsMap:         types.URLsMap{memberName: urls},
		InitialClusterToken:        memberName,
		NewCluster:                 true,
		TickMs:                     tickMillis,
		ElectionTicks:              electionTicks,
		InitialElectionTickAdvance: true,
		PreVote:                    true,

		SnapshotCount:          snapshotCount,
		SnapshotCatchUpEntries: catchUpEntries,
		MaxSnapFiles:           maxFiles,
		MaxWALFiles:            maxFiles,
		UnsafeNoFsync:          c.InsecureNoSync,

		QuotaBackendBytes:           c.QuotaBytes,
		AutoCompactionMode:          "periodic",
		AutoCompactionRetention:     c.Compaction,
		MaxRequestBytes:             maxRequestBytes,
		MaxTxnOps:                   maxTxnOps,
		WatchProgressNotifyInterval: progressInterval,
		WarningApplyDuration:        100 * time.Millisecond,
		WarningUnaryRequestDuration: 300 * time.Millisecond,

		AuthToken:  "simple",
		BcryptCost: bcryptCost,
		TokenTTL:   tokenTTL,

		StrictReconfigCheck: true,
		Metrics:             "basic",
		V2Deprecation:       config.V2DeprDefault,
		ServerFeatureGate:   features.NewDefaultServerFeatureGate(memberName, log),
		Logger:              log,
	}, nil
}
