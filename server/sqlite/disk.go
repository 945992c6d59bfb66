package sqlite

import (
	"fmt"

	"github.com/ration-go/ration/server/doctor"
)

// disk is where a file is.
type disk struct {
	kind  int64 // of the file system, as Linux numbers them
	free  uint64
	total uint64 // bytes
}

// networks are file systems on which locks and shared memory of several machines do not work as SQLite needs them.
var networks = map[int64]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x517b: "SMB", 0x01021997: "9p", 0x5346414f: "AFS", 0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre", 0x7461636f: "OCFS2", 0x01161970: "GFS2", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x65735546: "FUSE",
}

const (
	tmpfs   = 0x01021994
	ramfs   = 0x858458f6
	overlay = 0x794c7630
)

// What is left of a disk that is nearly full, in bytes.
const (
	fewBytes  = 256 << 20
	lastBytes = 16 << 20
)

func (d disk) findings(folder string) (all []doctor.Finding) {
	say := func(severity doctor.Severity, code, text, remedy string) {
		all = append(all, doctor.Finding{Severity: severity, Code: code, Where: folder, Text: text, Remedy: remedy})
	}
	if name := networks[d.kind]; name != "" {
		say(doctor.Error, "sqlite.network", "the folder is on a network file system ("+name+"), where SQLite's locks do not hold: counts get lost, and files spoiled",
			"keep the file on a local disk; servers of several machines share PostgreSQL or Redis")
	}
	switch d.kind {
	case tmpfs, ramfs:
		say(doctor.Warning, "sqlite.memory", "the folder is in memory: a restart of the machine forgets all counts", "name a path on a disk with --store")
	case overlay:
		say(doctor.Note, "sqlite.container", "the folder is in a container's own layer: counts go with the container", "mount a volume there")
	}
	switch left := fmt.Sprintf("%d MiB are free", d.free>>20); {
	case d.total == 0:
	case d.free < lastBytes:
		say(doctor.Error, "sqlite.disk", "the disk is full: "+left, "free some; charges fail meanwhile")
	case d.free < fewBytes:
		say(doctor.Warning, "sqlite.disk", "the disk is nearly full: "+left, "free some; when it is full, charges fail")
	}
	return all
}
