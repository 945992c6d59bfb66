package sqlite

import (
	"slices"
	"testing"

	"github.com/ration-go/ration/server/doctor"
)

// TestDisks: file systems that this machine does not have, and disks that are not full here.
func TestDisks(t *testing.T) {
	t.Parallel()
	const ext4, gib = 0xef53, 1 << 30
	for name, c := range map[string]struct {
		disk disk
		want []string
	}{
		"a disk":       {disk{ext4, 9 * gib, 100 * gib}, nil},
		"nearly full":  {disk{ext4, 200 << 20, 100 * gib}, []string{"warning sqlite.disk"}},
		"full":         {disk{ext4, 1 << 20, 100 * gib}, []string{"error sqlite.disk"}},
		"NFS":          {disk{0x6969, 9 * gib, 100 * gib}, []string{"error sqlite.network"}},
		"SMB":          {disk{0xfe534d42, 9 * gib, 100 * gib}, []string{"error sqlite.network"}},
		"without size": {disk{0x01021997, 0, 0}, []string{"error sqlite.network"}},
		"memory":       {disk{tmpfs, 9 * gib, 10 * gib}, []string{"warning sqlite.memory"}},
		"a container":  {disk{overlay, 9 * gib, 10 * gib}, []string{"note sqlite.container"}},
	} {
		var got []string
		for _, f := range c.disk.findings("/data") {
			got = append(got, f.Severity.String()+" "+f.Code)
			if f.Where != "/data" || f.Remedy == "" || f.Severity == doctor.Fine {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
